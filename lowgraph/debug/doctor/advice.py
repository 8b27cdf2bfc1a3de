"""What to do about each kind of finding, and the page of this repository that says more."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lowgraph.debug.doctor.findings import Advice, CaptureSeen, Leak, RefusalSeen, Unowned
from lowgraph.debug.stale import OUTSIDE

if TYPE_CHECKING:
    from lowgraph.debug.doctor.report import DoctorReport

__all__ = ["ERRORS", "NO_REMEDY", "of"]

ERRORS = "docs/errors.md"
NO_REMEDY = "read its reason, and the row of its name"
"""For a refusal that has none of its own."""

_GRAPHS, _PAGE = "docs/graphs.md", "docs/doctor.md"

_LEAKS = {
    "work": "it ran once, while the graph was recorded, and is in no replay: send it to the stream "
    "that captures, or fork its stream from that one with an event",
    "allocation": "take memory before the capture, or from the pool in a primed body; a node that "
    "allocates does so at every replay",
    "synchronisation": "nothing runs in a capture that could be waited for: read results behind "
    "the step",
    "call": "no replay makes this call: make it before the capture, or behind its end",
}
_FROZEN = Advice(
    "frozen scalars",
    "every replay has the recorded value: keep what changes from step to step in device memory "
    "(the control block), and pass its address",
    ERRORS,
)
_RACE = Advice(
    "races",
    "order the two nodes: let the second one's stream wait for an event behind the first",
    _GRAPHS,
)
_HIDDEN = Advice(
    "legacy work",
    "what a library sends to the legacy stream is in no replay: give it the capturing stream, or "
    "call it outside of the step",
    _PAGE,
)
_EMPTY = Advice(
    "empty graphs",
    "nothing was sent to the stream while it captured, and replays do nothing: launch on the "
    "capturing stream",
    ERRORS,
)
_CALLS = {
    900: "the call may not be made while a stream captures: make it before, or behind the end",
    901: "the capture had been broken before: look at the first call that is named for it",
    904: "a forked stream has work that the capture's stream does not wait for: join it",
    905: "wait for work from outside before the capture begins",
    906: "legacy-stream work breaks a capture that a blocking stream is in: capture on a "
    "non-blocking stream",
    907: "an event of the capture cannot be waited for or asked after before its end",
}
_ANY_CALL = "code 9xx of a capture: the driver's manual names the rule, docs/errors.md the remedy"


def of(report: DoctorReport) -> Iterator[Advice]:
    """One for each kind of what was found."""
    yield from _of_leaks(report.leaked)
    yield from _of_unowned(report.unowned)
    yield from _of_refusals(report.refusals)
    yield from _of_calls(report.captures)
    if any(one.outcome == "recorded" and not one.nodes for one in report.captures):
        yield _EMPTY
    if report.frozen:
        yield _FROZEN
    if any(race.certain for race in report.races):
        yield _RACE
    if report.hidden:
        yield _HIDDEN


def _of_leaks(leaks: list[Leak]) -> Iterator[Advice]:
    """One for each kind of leak."""
    for kind in dict.fromkeys(leak.kind for leak in leaks):
        yield Advice(f"leaked {kind}", _LEAKS[kind], _PAGE)


def _of_refusals(refusals: list[RefusalSeen]) -> Iterator[Advice]:
    """One for each kind of refusal, in the words of its remedy."""
    for one in {each.type: each for each in reversed(refusals)}.values():
        yield Advice(one.type, one.remedy or NO_REMEDY, ERRORS)


def _of_calls(captures: list[CaptureSeen]) -> Iterator[Advice]:
    """One for each code with which the driver refused a call."""
    refused = [call for capture in captures for call in capture.refused]
    for code in sorted({call.code for call in refused}):
        yield Advice(f"code {code}", _CALLS.get(code, _ANY_CALL), ERRORS)


def _of_unowned(found: list[Unowned]) -> Iterator[Advice]:
    """For pointers into nothing that is known, and for those into memory that was given back."""
    kinds = {one.kind for one in found}
    if OUTSIDE in kinds:
        text = (
            "lowgraph cannot keep this memory: take it from the pool, or declare it (Input, or a "
            "pin that follows it)"
        )
        yield Advice("unowned pointers", text, "docs/pins.md")
    if kinds - {OUTSIDE}:
        text = "keep the memory for as long as the graph, or record the step anew"
        yield Advice("stale pointers", text, _GRAPHS)
