"""A free that comes before the allocation which nothing orders before it is no fault."""

from __future__ import annotations

import pytest

from lowgraph.driver import Device
from tests.traces.runner import run_here
from tests.traces.scenario import THREAD_LOCAL, Scenario
from tests.traces.world import module_image

pytestmark = pytest.mark.host

STEPS = """
begin s; alloc_async p s; launch s; end s g; instantiate g x;
launch u kernel=hold; graph_launch x u; free_async p t; sync t; release; sync u;
graph_launch x s; sync s
"""


def test_a_free_before_its_launch_has_come_to_the_allocation(device: Device) -> None:
    """The random sequences of a GPU have such pairs, and none of them poisons the context."""
    scenario = Scenario("unordered", STEPS)
    answered = run_here(device, module_image(device), scenario, THREAD_LOCAL)
    assert [call[:2] for call in answered["calls"]] == [[step, 0] for step in scenario.steps]
