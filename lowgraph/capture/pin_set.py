"""PinSet: the declared inputs, pins and random states of one step, at each turn of its life."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np

from lowgraph.capture.node_params import Contents
from lowgraph.capture.pin_rebind import Holder, Settable, addresses, find_holders, rebind
from lowgraph.capture.pin_table import AddressTable, Keeper
from lowgraph.capture.pinned_memory import Place
from lowgraph.capture.pins import CopyIn, Input, Pin, Rebind, Table
from lowgraph.capture.report import StepReport
from lowgraph.capture.scalars import find_declared
from lowgraph.capture.state_arrays import state_warnings
from lowgraph.errors import CaptureRefused, ConfigError
from lowgraph.kernels import Kernel, Library
from lowgraph.memory import PersistentPool, Slice
from lowgraph.memory.teardown import do_all

__all__ = ["Draws", "PinSet", "extent"]


class Draws(Protocol):
    """Random state on the device, as a report sees it (`lowgraph.ops.RandomState`)."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def draws(self) -> int:
        """Counters of the generator that one step takes, four 32-bit numbers each."""


class PinSet:
    """See the module. per_step: by-value arguments that a graph must not freeze (FrozenScalar).

    Raises ConfigError on a name that is used twice, a pin of another step, and a CopyIn without a
    library to take the copy kernel from.
    """

    def __init__(
        self,
        pins: Sequence[Pin],
        inputs: Sequence[Input],
        *,
        random: Sequence[Draws] = (),
        per_step: Collection[str] = (),
        pool: PersistentPool,
        library: Library | None,
        stream: int,
        label: str,
    ) -> None:
        self.stream = stream
        self.label = label
        self._all: tuple[Pin, ...] = (*inputs, *pins)
        self._random = tuple(random)
        self._per_step = frozenset(per_step)
        self._pool = pool
        _refuse_clashes(self._all, label)
        self._inputs: list[Pin] = [pin for pin in self._all if isinstance(pin, Input)]
        self._copies = [pin for pin in self._all if isinstance(pin, CopyIn)]
        self._rebinds = [pin for pin in self._all if isinstance(pin, Rebind)]
        tables = [pin for pin in self._all if isinstance(pin, Table)]
        self._others: list[Pin] = [*self._copies, *self._rebinds, *tables]
        self._copy = _copy_kernel(library, self._copies)
        self._table = AddressTable(pool, label, tables)
        self._keeper = Keeper(stream)
        self._graph: Settable | None = None
        self._changed = True  # pins have moved, and nodes and table do not follow yet
        self._noted: dict[Pin, Place] = {}
        self._found: dict[Rebind, list[Holder]] = {}
        self._holders: dict[Rebind, list[Holder]] = {}
        self._bound: dict[Rebind, int | None] = {}
        for pin in self._all:
            pin.label = label

    @property
    def declared(self) -> tuple[Pin, ...]:
        """All inputs and pins."""
        return self._all

    # ---- the step's life ----

    def before_pass(self) -> None:
        """Before the body runs: inputs are where they are now, masters and table are filled."""
        for pin in self._inputs:
            self._look(pin, anywhere=True)
        for pin in self._others:
            self._look(pin)
        self._take_masters()
        self._table.write(self.stream)
        self._fill_masters()
        self._changed = True

    def before_window(self) -> None:
        """Before the body is recorded: what is there now is what the graph will read."""
        for pin in self._all:
            self._look(pin, anywhere=True)
        self._take_masters()
        self._noted = {pin: pin._place() for pin in self._all}

    def judge(self, contents: Contents) -> None:
        """Refuse a recording that reads a pin in a way that it cannot follow, or not at all.

        Raises FrozenScalar for a by-value argument that was declared to change, CaptureRefused.
        """
        frozen = find_declared(self._per_step, contents.journal) if self._per_step else None
        if frozen is not None:
            raise frozen
        self._found = {pin: find_holders(contents, pin, self._noted[pin]) for pin in self._rebinds}
        _refuse_shared(self._found)
        if not self._others:
            return
        given = addresses(contents)
        for pin in self._others:
            begin, end = extent(pin)
            if not any(begin <= address < end for address in given):
                reason = f"no node of {self.label!r} was given {pin.kind} {pin.name!r}"
                remedy = "hand the pin itself to the launch, in place of its memory"
                raise CaptureRefused(f"{reason}: replays would not follow it", None, remedy)

    def warnings(self, contents: Contents) -> list[str]:
        """What to tell of a judged recording: see `state_arrays`."""
        return state_warnings(self._inputs, contents, self._pool)

    def attach(self, graph: Settable) -> None:
        """The judged recording is what the executable holds now."""
        self._graph = graph
        self._changed = True
        for pin in self._all:
            pin.captured = self._noted[pin]
        self._holders = self._found
        self._bound = {pin: self._noted[pin].address for pin in self._rebinds}
        for pin, holders in self._holders.items():
            pin.nodes = len({holder.index for holder in holders})

    def before_replay(self) -> None:
        """Check every declaration, then copy, rebind and write the table as needed.

        Raises InputMoved before anything is launched, DriverError from what is.
        """
        for pin in self._inputs:
            pin.look()
        for pin in self._others:
            if self._look(pin):
                self._changed = True
        if self._changed:  # until all of it was done
            self._take_masters()
            self._rebind()
            self._table.write(self.stream)
            self._changed = False
        self._fill_masters()

    def fill(self, report: StepReport) -> None:
        """The prices."""
        report.inputs = len(self._inputs)
        report.pins = len(self._others)
        report.pin_launches = len(self._copies)
        report.pin_prices = {f"{pin.kind} {pin.name!r}": pin.price for pin in self._others}
        report.draws = {state.name: state.draws for state in self._random}

    def close(self) -> None:
        """Give masters and table back; the caller has waited for the stream. Idempotent.

        Everything is tried; the first DriverError is raised.
        """
        self._graph = None
        masters = [partial(self._give_master_back, pin) for pin in self._copies]
        forgets = [declared.forget for declared in self._all]
        do_all((self._keeper.close, self._table.close, *masters, *forgets))

    # ---- inside ----

    def _look(self, pin: Pin, anywhere: bool = False) -> bool:
        before = pin.owner
        moved = pin.look_anywhere() if anywhere else pin.look()
        # A pool's slices need no keeping: their memory is used again in stream order.
        if before is not pin.owner and before is not None and not isinstance(before, Slice):
            self._keeper.let_go(before)
        return moved

    def _rebind(self) -> None:
        for pin in self._rebinds:
            place = pin._place()
            if self._bound[pin] != place.address and self._graph is not None:
                self._bound[pin] = None  # a set that fails half way is done again
                rebind(self._graph, self._holders[pin], place)
                self._bound[pin] = place.address

    def _give_master_back(self, pin: CopyIn) -> None:
        master, pin.master = pin.master, None
        if master is not None:
            self._pool.give_back(master)

    def _take_masters(self) -> None:
        for pin in self._copies:
            if pin.master is None:
                place = pin._place()
                pin.master = self._pool.take(f"{pin.name}: master", place.shape, place.dtype)
            pin.refuse_overlap()

    def _fill_masters(self) -> None:
        for pin in self._copies:
            assert self._copy is not None, "copy-in pins have a kernel"
            source = pin._place()
            blocks = -(-source.nbytes // 2048)
            self._copy(self.stream, blocks, 128, pin.address, source.address, source.nbytes)


def _refuse_shared(found: dict[Rebind, list[Holder]]) -> None:
    taken: dict[tuple[int, str], Rebind] = {}
    for pin, holders in found.items():
        for holder in holders:
            other = taken.setdefault((holder.index, holder.parameter), pin)
            if other is not pin:
                raise CaptureRefused(
                    f"rebind pins {other.name!r} and {pin.name!r} overlap: argument "
                    f"{holder.parameter!r} of node {holder.index} lies in both",
                    None,
                    "declare the memory once",
                )


def extent(pin: Pin) -> tuple[int, int]:
    """Begin and end of what a kernel is given: the memory, a copy-in's master, a table's slot."""
    size = np.dtype(np.uint64).itemsize if isinstance(pin, Table) else pin._place().nbytes
    return pin.address, pin.address + size


def _copy_kernel(library: Library | None, copies: Sequence[CopyIn]) -> Kernel | None:
    if not copies:
        return None
    if library is None:
        raise ConfigError(f"copy-in pin {copies[0].name!r} needs a library: give the step one")
    return library.kernel("copy.cu", "copy_bytes")


def _refuse_clashes(pins: Sequence[Any], label: str) -> None:
    names: set[str] = set()
    for pin in pins:
        if not isinstance(pin, (Input, CopyIn, Rebind, Table)):
            raise ConfigError(f"{label!r}: {pin!r} is no Input, CopyIn, Rebind or Table")
        if pin.name in names:
            raise ConfigError(f"{label!r} declares two inputs of the name {pin.name!r}")
        if pin.label:
            raise ConfigError(f"pin {pin.name!r} belongs to {pin.label!r}: one step a pin")
        names.add(pin.name)
