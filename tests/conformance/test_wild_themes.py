"""The wider random sequences: each of their calls is drawn, can be made, and has one answer."""

from __future__ import annotations

import re

import pytest

from lowgraph.driver import Device
from tests.traces.record_wild import answers
from tests.traces.verbs import VERBS
from tests.traces.wild import FIRST_WIDE_SEED, scenario_of
from tests.traces.wild_themes import THEMES, Theme
from tests.traces.world import module_image

SEEDS = range(FIRST_WIDE_SEED, FIRST_WIDE_SEED + 2000)
RUN_TWICE = range(FIRST_WIDE_SEED, FIRST_WIDE_SEED + 70)
# A step that names a destroyed conditional node: made in what is recorded, not in what comes after.
STALE = (
    (700_706, "@cond_destroy q1", 1, 1),
    (704_082, "cond_destroy q2", 1, "not made"),
    (709_076, "cond_set_enabled y q1 0", 0, "not made"),
)

HOLE = re.compile(r"\\\{\w+\\\}")


def _forms(theme: Theme) -> list[str]:
    """Every step that may be drawn, with its holes."""
    tables = theme.capture, theme.build, theme.use, theme.outside
    return [form for table in tables for form in table]


def test_every_call_of_a_theme_is_drawn() -> None:
    drawn = {step.removeprefix("@") for seed in SEEDS for step in scenario_of(seed).steps}
    for theme in THEMES:
        for form in _forms(theme):
            pattern = re.compile(HOLE.sub(r"\\S+", re.escape(form)))
            assert any(pattern.fullmatch(step) for step in drawn), form


def test_every_hole_of_a_theme_can_be_filled() -> None:
    """A step with a hole that nothing fills would be drawn as it stands."""
    for seed in SEEDS:
        for step in scenario_of(seed).steps:
            assert "{" not in step, (seed, step)
            assert step.removeprefix("@").split()[0] in VERBS, (seed, step)


@pytest.mark.host
def test_two_runs_of_a_sequence_are_answered_alike(device: Device) -> None:
    image = module_image(device)
    for seed in RUN_TWICE:
        assert answers(device, image, seed) == answers(device, image, seed), seed


@pytest.mark.host
@pytest.mark.parametrize(("seed", "step", "place", "code"), STALE)
def test_a_destroyed_node_is_not_named_any_more(
    device: Device, seed: int, step: str, place: int, code: int | str
) -> None:
    calls = answers(device, module_image(device), seed)
    codes = [given for name, given, *_ in calls if name == step]
    assert codes[place] == code
    assert codes[:place] == [0] * place
