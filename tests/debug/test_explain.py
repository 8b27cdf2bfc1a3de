"""A refusal, explained: what, where, the rule, the suspects, what to do, what to ask next."""

from __future__ import annotations

from pathlib import Path

import pytest
from cuda.bindings import driver as cu

import lowgraph
from lowgraph import driver
from lowgraph.capture import bisecting
from lowgraph.debug import explain
from lowgraph.errors import CaptureRefused, EmptyCapture
from lowgraph.memory import open_window
from tests.capture.bodies import Body, Parts


def refusal_of(parts: Parts, body: Body) -> CaptureRefused:
    """What the capture of a primed step is refused with."""
    parts.run = body
    parts.step.prime()
    with pytest.raises(CaptureRefused) as caught:
        parts.step.capture()
    return caught.value


def waits_past_us(parts: Parts) -> None:
    parts.add()
    with lowgraph.stage("callee"):
        cu.cuCtxSynchronize()


def test_a_refusal_before_the_driver_has_its_classs_rule(parts: Parts) -> None:
    refusal = refusal_of(parts, lambda p: (p.add(), driver.stream.synchronize(p.stream)))
    told = explain(refusal)
    assert (told.type, told.code, told.more) == ("SyncDuringCapture", 0, "")
    assert told.rule == "The host waited for, or queried, the device inside the window"
    assert told.where.startswith(f"{__file__}:") and told.remedy.startswith("read results after")
    assert [text.partition(":")[0].strip() for text in told.lines()] == [
        "SyncDuringCapture", "where", "rule", "remedy"
    ]  # fmt: skip


def test_a_call_past_us_is_not_known_and_what_to_do_about_that_is(parts: Parts) -> None:
    told = explain(refusal_of(parts, waits_past_us))
    assert (told.type, told.code, told.broken) == ("CaptureFailed", 901, "")
    assert told.rule == "an earlier call had invalidated the capture: every later one answers this"
    assert "bisect it (capture.bisecting(), or python -m lowgraph doctor --bisect" in told.more


def test_bisected_it_is_known(parts: Parts) -> None:
    with bisecting():
        told = explain(refusal_of(parts, waits_past_us))
    assert told.broken.startswith(f"broken at {told.where} in stage 'callee' by code that")
    assert (told.stage, told.more) == ("callee", "")
    assert f"  where: {told.where}, in stage 'callee'" in list(told.lines())
    assert told.as_dict()["broken"] == told.broken


def test_a_call_of_ours_that_the_driver_refused_is_named_with_its_code(parts: Parts) -> None:
    def sets_a_limit(p: Parts) -> None:
        p.add()
        if open_window.mine() is not None:  # a call that our guard does not know
            limit = cu.CUlimit.CU_LIMIT_STACK_SIZE
            driver.gate.call(cu.cuCtxSetLimit, limit, 2048)  # SETS

    told = explain(refusal_of(parts, sets_a_limit))
    assert (told.code, told.more) == (900, "")
    assert "call 2: cuCtxSetLimit(" in told.what and "answered 900" in told.what
    assert told.rule.startswith("while a capture is open, no call of its thread may wait for")
    assert any(text.startswith("  rule: 900 CUDA_ERROR_STREAM_CAPTURE") for text in told.lines())


def test_names_of_a_hostile_file_reach_no_terminal() -> None:
    told = explain(EmptyCapture("the window of 'a\x1b[2J' recorded nothing", "a.py:1", "launch"))
    assert not any("\x1b" in text for text in told.lines())
    assert Path(told.where.partition(":")[0]).name == "a.py"
