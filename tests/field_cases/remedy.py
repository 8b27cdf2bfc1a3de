"""What the cases ask of lowgraph's answer: a refusal with its parts, and nothing left behind."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from lowgraph.capture import Phase
from lowgraph.errors import CaptureRefused
from lowgraph.memory import open_window
from tests.capture.micro import Micro
from tests.capture.test_refusals import assert_sound

Refusal = type[CaptureRefused]


def refusal_of(micro: Micro, act: Callable[[], object], kind: Refusal) -> CaptureRefused:
    """The refusal that `act`, done in the window of a primed step, ends in.

    Pool, stream and hooks are as they were before the window; the next attempt is good.
    """
    step = micro.step()
    micro.extra = lambda number: act() if open_window.mine() is not None else None
    step.prime()
    allocations = micro.pool.stats().driver_allocs
    with pytest.raises(kind) as raised:
        step.capture()
    assert type(raised.value) is kind
    assert_sound(micro)
    stats = micro.pool.stats()
    assert stats.driver_allocs == allocations and stats.retained == stats.primed == 0
    assert step.report().first_refusal == str(raised.value)
    micro.extra = lambda number: None
    step()
    step()
    assert step.phase is Phase.READY, step.report().text()
    return raised.value


def names_the_line(refusal: CaptureRefused, file: str) -> bool:
    """Whether it names a line of `file`, the user's."""
    found = re.search(rf"{re.escape(file)}:\d+$", refusal.where or "")
    return found is not None and bool(refusal.remedy)
