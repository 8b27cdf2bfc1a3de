"""What a scenario is: a name, the capture modes it is run in, and its steps as text.

A step is a verb and its arguments, `verb argument ...`; steps are separated by `;`. A step that
begins with `@` is made by a second host thread, the same one for the whole scenario. Names:

* streams `s`, `t`, `u` (non-blocking), `b` (blocking), `legacy`, `per_thread`;
* events `e1`, `e2`, `e3` (no timing), `t1`, `t2` (timing);
* memory, graphs, executables and modules get the name that the step gives them.

The verbs are the keys of `tests.traces.verbs.VERBS`, each with the driver call it makes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

GLOBAL = "GLOBAL"
THREAD_LOCAL = "THREAD_LOCAL"
RELAXED = "RELAXED"
EVERY_MODE = (GLOBAL, THREAD_LOCAL, RELAXED)


@dataclass(frozen=True)
class Scenario:
    """Named driver calls.

    `kills`: it poisons the context, so it runs in a process of its own. `apart`: it is recorded in
    one, since a driver may not survive it, or go on with memory that is not its own.
    """

    name: str
    text: str
    modes: tuple[str, ...] = (THREAD_LOCAL,)
    kills: bool = False
    apart: bool = False

    @property
    def steps(self) -> tuple[str, ...]:
        """The steps, each with single spaces."""
        parts = (" ".join(part.split()) for part in self.text.split(";"))
        return tuple(part for part in parts if part)

    def key(self, mode: str) -> str:
        """The name of one run of it."""
        return f"{self.name} [{mode}]"


def in_window(
    calls: Iterable[tuple[str, str]], before: str = "", modes: tuple[str, ...] = EVERY_MODE
) -> Iterator[Scenario]:
    """One scenario a call: begin, launch, the call, launch, end. `before` goes ahead of begin."""
    for name, call in calls:
        yield Scenario(name, f"{before}; begin s; launch s; {call}; launch s; end s g", modes)
