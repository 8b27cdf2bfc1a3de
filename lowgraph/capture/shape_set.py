"""Shape sets: what a pass launched, took from the pool and multiplied, each by its sizes.

A priming pass makes ready what the recorded pass needs: blocks of the pool, a library's algorithm
for a shape, whatever is made on first use. It does so for the sizes that it met. A recorded pass of
other sizes meets what was never run before, which may work, or fail for some sizes only: so it is
told, with the first place where the two passes part. Sizes that differ where the passes line up are
refused (`scalars`).
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Hashable
from typing import NamedTuple

from lowgraph.capture.journal import Journal
from lowgraph.capture.records import LaunchRecord, Sized
from lowgraph.capture.report import StepReport
from lowgraph.capture.scalars import same_launches
from lowgraph.errors import CaptureRefused, FrozenScalar

__all__ = ["Difference", "PassWarnings", "difference"]

_REMEDY = (
    "what the priming pass made ready (memory, a library's algorithms, work of a first use) was "
    "for its own sizes: prime with the sizes that the step is recorded with"
)


class _Entry(NamedTuple):
    """key: equal where both passes did the same. name: of the kernel, slice, product or call."""

    key: Hashable
    name: str
    text: str
    where: str


class Difference(NamedTuple):
    """The first place where two passes part. key: the same for the same place, sizes apart."""

    key: Hashable
    text: str


def difference(primed: Journal, recorded: Journal, complete: bool = True) -> Difference | None:
    """Where the recorded pass first parts from the primed one; None if their sets are equal.

    Compared are kernels with grid, block and dynamic shared bytes, slices of the pool by bytes,
    products by sizes and calls of libraries by name, in whatever order.
    complete: False for a recorded pass that failed on its way, whose rest is not known.
    """
    old, new = _entries(primed), _entries(recorded)
    before, now = Counter(entry.key for entry in old), Counter(entry.key for entry in new)
    if before == now or not (complete or now - before):
        return None
    most = min(len(old), len(new))
    place = next((n for n in range(most) if old[n].key != new[n].key), most)
    then = old[place] if place < len(old) else None
    here = new[place] if place < len(new) else None
    nearest = here or then
    assert nearest is not None, "sets that differ part somewhere"
    told = f"{nearest.where}: the recorded pass {_parting(then, here)}"
    if complete:
        told += f". Recorded: {_totals(recorded)}; primed: {_totals(primed)}"
        told += "" if same_launches(primed, recorded) else "; scalars could not be compared"
    key = nearest.where, here and here.name, then and then.name
    return Difference(key, f"{told}; {_REMEDY}")


class PassWarnings:
    """Tells a step's user, each place once, that its passes are of different sizes.

    say: told the warning. counts: `shape_warning` holds the one of the latest recording, `notes`
    the others.
    """

    def __init__(self, counts: StepReport, say: Callable[[str], None]) -> None:
        """Nothing told yet."""
        self._counts = counts
        self._say = say
        self._told: set[Hashable] = set()

    def explain(self, refusal: CaptureRefused, primed: Journal, recorded: Journal) -> None:
        """Tell a refusal what sizes its window had met that the priming pass had not."""
        found = difference(primed, recorded, complete=False)
        if found is not None and not isinstance(refusal, FrozenScalar):  # which says so itself
            refusal.differs = found.text

    def compare(self, primed: Journal, recorded: Journal) -> bool:
        """Whether the sets of two passes that went well are equal; tells it if not."""
        found = difference(primed, recorded)
        self._counts.shape_warning = "" if found is None else found.text
        if found is None:
            return True
        self._say_once(found.key, found.text)
        return False

    def tell(self, warnings: list[str]) -> None:
        """Other warnings of a recording: each is told once, and noted in the report."""
        for text in warnings:
            self._say_once(text, text)
            if text not in self._counts.notes:
                self._counts.notes.append(text)

    def _say_once(self, key: Hashable, text: str) -> None:
        if key not in self._told:
            self._told.add(key)
            self._say(f"lowgraph: {self._counts.label}: warning: {text}")


def _parting(then: _Entry | None, here: _Entry | None) -> str:
    if here is None:
        assert then is not None
        return f"ended where the priming pass had {then.text}"
    if then is None:
        return f"has {here.text}, where the priming pass had ended"
    return f"has {here.text}, where the priming pass had {then.text} (at {then.where})"


def _totals(journal: Journal) -> str:
    kinds = Counter(size.kind for size in journal.sizes)
    return f"launches {len(journal.launches)}, slices {kinds['slice']}, products {kinds['product']}"


def _entries(journal: Journal) -> list[_Entry]:
    """Launches and sizes, in the order in which they came."""
    entries: list[_Entry] = []
    sizes = deque(journal.sizes)
    for number, launch in enumerate(journal.launches):
        if launch.aside or launch.body:  # an unrecorded pass may not have come to a body
            continue
        while sizes and sizes[0].after <= number:
            entries.append(_of_size(sizes.popleft()))
        entries.append(_of_launch(number, launch))
    return [*entries, *map(_of_size, sizes)]


def _of_launch(number: int, launch: LaunchRecord) -> _Entry:
    grid, block, shared = launch.sizes
    text = f"launch {number}, {launch.kernel} of grid {grid}, block {block}"
    text += f", {shared} bytes of dynamic shared memory" if shared else ""
    return _Entry((launch.function, *launch.sizes), launch.kernel, text, launch.where)


def _of_size(size: Sized) -> _Entry:
    text = f"slice {size.name!r} of {size.sizes[0]} bytes" if size.kind == "slice" else size.name
    return _Entry((size.kind, *size.sizes), size.name, text, size.where)
