"""Verdict: what a window raises, given all that went wrong in it. The first cause wins.

The driver's 901 says "invalidated by an earlier error": it is never the whole answer. If the
journal holds the call that did it, that call is named; if not, the two calls between which it
happened are, and the calls of other threads meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass

from lowgraph.capture.bisect import Break
from lowgraph.capture.census import Census, judge
from lowgraph.capture.journal import Call, Journal
from lowgraph.capture.scalars import find_frozen
from lowgraph.driver import codes
from lowgraph.errors import CaptureFailed, CaptureRefused, ContextPoisoned, DriverError
from lowgraph.stages import within

__all__ = ["Evidence", "as_refusal", "verdict"]

_INVALIDATED = 901
_NOT_OURS = frozenset({_INVALIDATED, 401})  # 401: somebody else has ended the capture
_UNJOINED = 904  # work of a library on a fork: the forks with work of ours are refused before
_BAD_CALL = "the call has no place in a step's body, or its arguments are wrong"
_OUTSIDE = "call no library that allocates or synchronises in the body, or prepare it before"


@dataclass(frozen=True)
class Evidence:
    """What a window knows about itself. primed: the journal of the priming pass, if there was one.

    began_at: file:line of the user. forks: the streams that were forked into the capture, as text.
    broken: where a bisected capture was broken, if it was.
    """

    label: str
    began_at: str
    journal: Journal
    primed: Journal | None
    forks: str = ""
    broken: Break | None = None


def verdict(
    evidence: Evidence,
    census: Census | None,
    end_error: DriverError | None,
    error: BaseException | None,
) -> BaseException | None:
    """What to raise, or None when the graph may be used.

    census: of the graph, None if the end gave none. end_error: what the end of the capture raised.
    error: what left the body.
    """
    if error is not None and not isinstance(error, (CaptureRefused, DriverError)):
        return error  # the body's own; the capture is merely over
    for poisoned in (error, end_error):
        if isinstance(poisoned, ContextPoisoned):
            return poisoned
    first: BaseException | None = evidence.journal.first_refusal
    if first is None and isinstance(error, CaptureRefused) and not evidence.journal.refusals:
        first = error
    if first is not None:
        if end_error is not None and first.__cause__ is None:
            first.__cause__ = end_error
        return first
    failed = _failed_call(evidence, error, end_error)
    if failed is not None or census is None:
        return failed
    wrong = judge(census, evidence.journal, evidence.label, evidence.began_at)
    if wrong is None and evidence.primed is not None:
        wrong = find_frozen(evidence.primed, evidence.journal)
    return wrong


def as_refusal(label: str, error: BaseException) -> BaseException:
    """A driver error of the capture's own calls as CaptureFailed; anything else as it is."""
    if isinstance(error, ContextPoisoned) or not isinstance(error, DriverError):
        return error
    failure = CaptureFailed(f"the capture of {label!r} failed: {error}")
    failure.__cause__ = error
    return failure


def _failed_call(
    evidence: Evidence, error: BaseException | None, end_error: DriverError | None
) -> CaptureFailed | None:
    """A driver call of the window failed, whether the body saw it or not."""
    seen = error if isinstance(error, DriverError) else end_error
    first = evidence.journal.first_failure
    if first is None and seen is None:
        return None
    label, began_at, stage, brief = evidence.label, evidence.began_at, "", ""
    if first is not None and first.code != _INVALIDATED:
        answer = f"answered {first.code} {codes.name_of(first.code)}"
        told, stage = f"call {first.index}: {first.op}({first.args}) {answer}", first.stage
        later = "" if end_error is None else f"; then the end answered {end_error.code}"
        reason, where = f"in the window of {label!r} {told}{later}", first.where
        remedy = "" if first.op == "cuStreamBeginCapture" else _BAD_CALL
    elif seen is not None and seen.code not in _NOT_OURS:
        forks = evidence.forks or "a stream that lowgraph did not see, by a C library's event?"
        told = f"; forked into it: {forks}" if seen.code == _UNJOINED else ""
        reason, where, remedy = f"the capture of {label!r} failed: {seen}{told}", began_at, ""
    else:
        ended = seen is not None and seen.code != _INVALIDATED
        brief = _from_outside(evidence, ended)
        reason, where, remedy = f"{brief}{_by_whom(evidence)}", began_at, _OUTSIDE
        if evidence.broken is not None:
            where, stage = evidence.broken.where, evidence.broken.stage
    failure = CaptureFailed(reason, where, remedy, stage=stage)
    failure.__cause__, failure.broken, failure.brief = seen, evidence.broken, brief
    if remedy is _OUTSIDE:
        failure.suspects = evidence.journal.suspects.newest_first()
    return failure


def _from_outside(evidence: Evidence, ended: bool) -> str:
    what = "ended (401)" if ended else "invalidated (901)"
    return (
        f"the capture of {evidence.label!r} was {what} by a call that is not in its journal"
        f"{_bracket(evidence.journal)}"
    )


def _by_whom(evidence: Evidence) -> str:
    bisected = f"; bisected: {evidence.broken.told()}" if evidence.broken is not None else ""
    suspects = evidence.journal.suspects.text()
    return f"{bisected}. Calls of other threads meanwhile, newest first: {suspects}"


def _bracket(journal: Journal) -> str:
    """When it happened, as far as the journal knows."""
    found = journal.broken_between
    if found is None:
        return ", after its last call"
    good, bad = found
    before = f"after {_placed(good)}, and " if good else ""
    return f", {before}before {_placed(bad)}"


def _placed(call: Call) -> str:
    return f"call {call.index}, {call.op} at {call.where}{within(call.stage)}"
