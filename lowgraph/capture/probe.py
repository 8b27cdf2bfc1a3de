"""Probe pass: a body recorded once for nothing, where work on the legacy stream cannot hide.

    with probing() as probes:
        step(); step()      # before the second one is recorded, its body is recorded for nothing
    print(probes[0])

What a library sends to the legacy stream, or a synchronous copy, runs at once beside a capture, and
is missing from every replay. In a probe pass the driver refuses it (906), and bisecting names the
line that did it. Nothing of the step's runs on the device, but the body's Python runs once more,
and code that gets a 906 may raise: what it raises ends the probe, and the recording goes on as it
would have. Legacy work of other threads is refused too meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass

from lowgraph.capture.bisect import Break, bisecting
from lowgraph.capture.legacy_trap import LegacyTrap
from lowgraph.capture.window import Window
from lowgraph.errors import CaptureRefused, ContextPoisoned, DriverError

__all__ = ["Probe", "is_probing", "probing", "run"]


@dataclass(frozen=True)
class Probe:
    """What a probe pass met. broken: where the driver broke it, None if nothing did.

    error: what ended the pass: a refusal, which the recording will meet too, or what the body
    raised; None if it came to its end.
    """

    label: str
    broken: Break | None
    error: Exception | None

    def __str__(self) -> str:
        """One line."""
        raised = "" if self.error is None else f"{type(self.error).__name__}: {self.error}"
        if self.broken is not None:
            return f"probe of {self.broken}"
        if self.error is not None:
            return f"probe of {self.label!r}: cannot tell, it ended early: {raised}"
        return f"probe of {self.label!r}: nothing was sent to the legacy stream"


_found: list[Probe] | None = None


@contextmanager
def probing() -> Iterator[list[Probe]]:
    """Let a probe pass go before each recording of a GraphStep in the block; yields the results."""
    global _found
    before = _found
    _found = mine = list[Probe]()
    try:
        yield mine
    finally:
        _found = before


def is_probing() -> bool:
    """Whether `probing()` is on."""
    return _found is not None


def run(label: str, body: Callable[[], None], window_of: Callable[[LegacyTrap], Window]) -> None:
    """Record `body` in a window of the trap, which is thrown away, and note what was met.

    Raises ContextPoisoned, and Ctrl-C.
    """
    broken: Break | None = None
    error: Exception | None
    try:
        with closing(LegacyTrap()) as trap, bisecting():
            window = window_of(trap)
            error = _record(window, body)
            broken = window.broken
    except ContextPoisoned:
        raise
    except DriverError as failure:  # there is no trap to be had
        error = failure
    if _found is not None:
        _found.append(Probe(label, broken, error))


def _record(window: Window, body: Callable[[], None]) -> Exception | None:
    try:
        with window:
            body()
    except ContextPoisoned:
        raise
    except CaptureRefused as refusal:
        return refusal
    except Exception as error:  # the body's own, as a callee's answer to a 906
        return error
    finally:
        window.discard()
    return None
