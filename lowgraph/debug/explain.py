"""Explain: a refused or broken capture, point by point.

    try:
        step.capture()
    except CaptureRefused as refusal:
        print(*explain(refusal).lines(), sep="\\n")

What the refusal knows is said in the order in which it is asked: what happened, where, which rule
was broken, who else may have done it, what to do. With `capture.bisecting()` around the capture,
"where" is the line also for code that does not come through lowgraph.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from lowgraph.capture import Break
from lowgraph.debug.text import printable
from lowgraph.driver import codes
from lowgraph.errors import CaptureFailed, CaptureRefused, DriverError

__all__ = ["RULES", "Explanation", "explain"]

RULES = {
    1: "a call in a capture with arguments that the driver refuses invalidates it",
    401: "the stream captures already, or the capture was ended by somebody else",
    900: "while a capture is open, no call of its thread may wait for the device or change its "
    "memory (global mode: of any thread; a wait for the context: in every mode)",
    901: "an earlier call had invalidated the capture: every later one answers this",
    902: "a stream of one capture may not wait for an event of another",
    903: "a capture is ended on the stream that it was begun on",
    904: "every fork has to lead back to the capture's own stream before the end",
    905: "a capturing stream may not wait for an event that was recorded before, outside of it",
    906: "beside a capture that a blocking stream is in, nothing may be sent to the legacy stream",
    907: "an event that was recorded in a capture cannot be asked after or waited for by the host",
    908: "a capture is ended by the thread that began it, unless it is relaxed",
}
"""What the driver holds a capture to, by the code that it answers."""

_PROBE = (
    "no call of the step's is known to have done it: bisect it (capture.bisecting(), or python -m "
    "lowgraph doctor --bisect SCRIPT.py)"
)


@dataclass(frozen=True)
class Explanation:
    """One refusal. type: the error's name. code: the driver's first answer that is known, 0 if it
    was not asked. broken: see `capture.Break`, as text. suspects: of other threads, newest first.
    more: how to find out what is not known, "" if all is.
    """

    type: str
    what: str
    where: str
    stage: str
    code: int
    rule: str
    broken: str
    suspects: tuple[str, ...]
    remedy: str
    more: str

    def as_dict(self) -> dict[str, Any]:
        """All of it, ready for JSON."""
        return asdict(self)

    def lines(self) -> Iterator[str]:
        """For people; what is not known is left out."""
        yield printable(f"{self.type}: {self.what}")
        stage = f", in stage {self.stage!r}" if self.stage else ""
        answered = f"{self.code} {codes.name_of(self.code)}: " if self.code else ""
        told = {
            "where": f"{self.where}{stage}" if self.where else "",
            "rule": f"{answered}{self.rule}",
            "broken": self.broken,
            "suspects": "; ".join(self.suspects),
            "remedy": self.remedy,
            "more": self.more,
        }
        yield from (f"  {name}: {printable(text)}" for name, text in told.items() if text)


def explain(refusal: CaptureRefused) -> Explanation:
    """What a refusal knows. No driver call is made."""
    broken, suspects = "", tuple[str, ...]()
    code, found = _code(refusal), None
    if isinstance(refusal, CaptureFailed):
        found = refusal.broken if isinstance(refusal.broken, Break) else None
        suspects = tuple(map(str, refusal.suspects))
    if found is not None:
        broken, code = found.told(), found.code or code
    own = (type(refusal).__doc__ or "").partition("\n")[0].rstrip(".")
    unknown = code in (401, 901) and found is None
    return Explanation(
        type(refusal).__name__,
        refusal.reason,
        refusal.where or "",
        refusal.stage,
        code,
        RULES.get(code, own) if code else own,
        broken,
        suspects,
        refusal.remedy,
        _PROBE if unknown else "",
    )


def _code(refusal: CaptureRefused) -> int:
    """The driver's answer that comes first: that of the call, not that of the capture's end."""
    cause: BaseException | None = refusal.__cause__
    while cause is not None and not isinstance(cause, DriverError):
        cause = cause.__cause__
    return cause.code if isinstance(cause, DriverError) and cause.code > 0 else 0
