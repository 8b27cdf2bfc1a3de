"""Arms and ranges: what a step is told, and what NVTX is."""

from __future__ import annotations

import sys
import threading
from types import SimpleNamespace

import pytest

import lowgraph
from lowgraph import stages
from lowgraph.errors import ConfigError
from lowgraph.stages import arm, nvtx_ranges, stage, without


def _seen(*names: str) -> list[bool]:
    found = []
    for name in names:
        with arm(name) as on:
            found.append(on)
    return found


def test_an_arm_is_a_stage_that_is_on_but_inside_without() -> None:
    assert lowgraph.arm is arm
    with arm("ema") as on:
        assert on is True and stages.current() == "ema"
    with without("ema") as asked, stage("model"), arm("ema") as on:
        assert on is False and stages.current() == "model/ema"
    assert asked == {"ema"} and stages.current() == ""
    assert _seen("ema") == [True]


def test_blocks_nest_and_come_back() -> None:
    with without("a") as outer:
        with pytest.raises(KeyError), without("b") as inner:
            assert _seen("a", "b", "c") == [False, False, True]
            raise KeyError
        assert _seen("a", "b") == [False, True]
    assert _seen("a", "b") == [True, True]
    assert (outer, inner) == ({"a", "b", "c"}, {"a", "b", "c"})
    assert stages._without == () and stages._off == frozenset()


def test_blocks_of_two_threads_end_in_any_order() -> None:
    """What one turned off is on again with its own end, and with no other."""
    first, second = without("a"), without("b", "a")
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert _seen("a", "b") == [False, False]
    second.__exit__(None, None, None)
    assert _seen("a", "b") == [True, True]
    assert stages._without == () and stages._off == frozenset()


def test_an_arm_is_off_in_every_thread() -> None:
    found: list[bool] = []
    with without("a") as asked:
        thread = threading.Thread(target=lambda: found.extend(_seen("a", "b")))
        thread.start()
        thread.join()
    assert found == [False, True] and asked == {"a", "b"}


def test_an_exception_leaves_the_arm() -> None:
    with pytest.raises(KeyError), arm("a"):
        raise KeyError
    assert stages.current() == ""


@pytest.mark.parametrize("name", ["", "a/b", 3])
def test_a_name_that_cannot_be_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="a name is text without '/'"):
        arm(name)


def test_inclusive_adds_what_is_inside() -> None:
    own = {"": 1.0, "a/b/c": 2.0, "a": 4.0, "a/d": 8.0, "ab": 16.0}
    found = stages.inclusive(own)
    assert found == {"": 1, "a": 14, "a/b": 2, "a/b/c": 2, "a/d": 8, "ab": 16}


def test_stages_are_nvtx_ranges_in_the_block(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[str] = []
    fake = SimpleNamespace(push_range=heard.append, pop_range=lambda: heard.append("-"))
    monkeypatch.setitem(sys.modules, "nvtx", fake)
    with nvtx_ranges(), stage("a"), arm("b"):
        pass
    with stage("c"):
        pass
    assert heard == ["a", "b", "-", "-"]


def test_without_the_package_the_ranges_say_how_to_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nvtx", None)
    with pytest.raises(ConfigError, match=r"pip install 'lowgraph\[nvtx\]'"), nvtx_ranges():
        pass
    assert stages._listeners == ()
