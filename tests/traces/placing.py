"""One call in every place where a capture may stand to it."""

from __future__ import annotations

from collections.abc import Iterator

from tests.traces.scenario import EVERY_MODE, Scenario

_FORK = "begin s; launch s; record e2 s; wait t e2; launch t"
_BACK = "record e2 t; wait s e2; launch s; end s g"


def _by_another(call: str) -> str:
    return "; ".join("@" + step.strip() for step in call.split(";"))


def placed(name: str, before: str, call: str) -> Iterator[Scenario]:
    """Scenarios of the call: outside, in captures of each kind, by another thread, and so on.

    `{}` in the call is the stream that it is made on; `before` goes ahead of the capture.
    """
    on = call.format
    yield Scenario(f"{name}: outside", f"{before}; {on('s')}; sync s")
    yield Scenario(f"{name}: in a capture", f"{before}; begin s; launch s; {on('s')}; launch s; "
                   "end s g", EVERY_MODE)  # fmt: skip
    yield Scenario(f"{name}: in a blocking capture", f"{before}; begin b; launch b; {on('b')}; "
                   "launch b; end b g", EVERY_MODE)  # fmt: skip
    yield Scenario(f"{name}: in a capture, by another thread", f"{before}; begin s; launch s; "
                   f"{_by_another(on('s'))}; launch s; end s g", EVERY_MODE)  # fmt: skip
    yield Scenario(f"{name}: after an invalidation", f"{before}; begin s; launch s; query s; "
                   f"{on('s')}; end s g", EVERY_MODE)  # fmt: skip
    yield Scenario(f"{name}: without a context", f"{before}; @ctx_clear; {_by_another(on('s'))}; "
                   "@ctx_restore; sync s")  # fmt: skip
    if on("s") == call:
        return
    yield Scenario(f"{name}: on a joined stream", f"{before}; {_FORK}; {on('t')}; {_BACK}",
                   EVERY_MODE)  # fmt: skip
    yield Scenario(f"{name}: on another stream beside a capture", f"{before}; begin s; launch s; "
                   f"{on('u')}; launch s; end s g", EVERY_MODE)  # fmt: skip
    yield Scenario(f"{name}: on the legacy stream beside a capture", f"{before}; begin s; "
                   f"launch s; {on('legacy')}; launch s; end s g", EVERY_MODE)  # fmt: skip
    yield Scenario(f"{name}: on the legacy stream beside a blocking capture", f"{before}; begin b; "
                   f"launch b; {on('legacy')}; launch b; end b g", EVERY_MODE)  # fmt: skip
    yield Scenario(f"{name}: in a per-thread capture", f"{before}; begin per_thread; "
                   f"launch per_thread; {on('per_thread')}; end per_thread g")  # fmt: skip
    yield Scenario(f"{name}: captured and launched", f"{before}; begin s; {on('s')}; end s g; "
                   "instantiate g x; graph_launch x s; sync s; update x g")  # fmt: skip
