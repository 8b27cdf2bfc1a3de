"""Verdict: what a window raises, given all that went wrong in it. The first cause wins.

The driver's 901 says "invalidated by an earlier error": it is never the whole answer. If the
journal holds the call that did it, that call is named; if not, the calls of other threads are.
"""

from __future__ import annotations

from dataclasses import dataclass

from lowgraph.capture.census import Census, judge
from lowgraph.capture.journal import Journal
from lowgraph.capture.scalars import find_frozen
from lowgraph.driver import codes
from lowgraph.errors import CaptureFailed, CaptureRefused, ContextPoisoned, DriverError

__all__ = ["Evidence", "as_refusal", "verdict"]

_INVALIDATED = 901
_BAD_CALL = "the call has no place in a step's body, or its arguments are wrong"
_OUTSIDE = "call no library that allocates or synchronises in the body, or prepare it before"
_SUSPECTS = 8  # calls of other threads that are named, the newest


@dataclass(frozen=True)
class Evidence:
    """What a window knows about itself. primed: the journal of the priming pass, if there was one.

    began_at: file:line of the user.
    """

    label: str
    began_at: str
    journal: Journal
    primed: Journal | None


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
    refusals = evidence.journal.refusals
    if refusals or isinstance(error, CaptureRefused):
        first = refusals[0] if refusals else error
        if end_error is not None and first is not None and first.__cause__ is None:
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
    evidence: Evidence, error: DriverError | None, end_error: DriverError | None
) -> CaptureFailed | None:
    """A driver call of the window failed, whether the body saw it or not."""
    seen = error or end_error
    first = evidence.journal.first_failure
    if first is None and seen is None:
        return None
    label = evidence.label
    if first is not None and first.code != _INVALIDATED:
        told = f"{first.op}({first.args}) answered {first.code} {codes.name_of(first.code)}"
        later = "" if end_error is None else f"; then the end answered {end_error.code}"
        reason, where = f"in the window of {label!r} {told}{later}", first.where
        remedy = "" if first.op == "cuStreamBeginCapture" else _BAD_CALL
    elif seen is not None and seen.code != _INVALIDATED:
        reason, where, remedy = f"the capture of {label!r} failed: {seen}", evidence.began_at, ""
    else:
        reason, where, remedy = _from_outside(evidence), evidence.began_at, _OUTSIDE
    failure = CaptureFailed(reason, where, remedy)
    failure.__cause__ = seen
    return failure


def _from_outside(evidence: Evidence) -> str:
    newest = evidence.journal.others[: -_SUSPECTS - 1 : -1]
    others = [f"{call.thread}: {call.op} ({call.where})" for call in newest]
    seen = "; ".join(others) if others else "none through lowgraph"
    return (
        f"the capture of {evidence.label!r} was invalidated (901) by a call that is not in its "
        f"journal. Calls of other threads meanwhile, newest first: {seen}"
    )
