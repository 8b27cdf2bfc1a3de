"""Pins: what keeps an address that a graph reads from moving, or follows it when it does.

    x = CopyIn("x", source=lambda: loader.batch())       # one copy launch a replay
    w = Rebind("w", source=lambda: foreign.weights())    # nodes are set when it moves
    t = Table("t", source=lambda: foreign.moments())     # kernels read the address from a table
    step = GraphStep(body, ..., inputs=[Input("y", y)], pins=[x, w, t])

The body passes the pin itself to a launch, in place of the memory: `kernel(stream, grid, block,
out, x, n)`. A kernel given a Table takes a pointer to the pointer (`const float* const*`).

`source` is device memory, or a callable that returns it at each step: a slice, an array with
DLPack or `__cuda_array_interface__`, or ForeignMemory. It is asked once before every pass and
replay; shape and dtype must stay as they were first. An `Input` may not move at all; each pin has
its price:

    Input    no launch; a moved one is InputMoved
    CopyIn   one launch a replay; for what is read, as the copy goes one way
    Rebind   no launch; one driver call a node and move. Kernels of ours only: in a library's
             kernel, a copy or a fill the address cannot be found for certain (refused)
    Table    no launch; one 8-byte copy for all tables of the step when one moved, and one more
             load in the kernel
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lowgraph.capture.pinned_memory import ForeignMemory, Place, describe, keeper_of
from lowgraph.driver.callers import requester
from lowgraph.errors import ConfigError, InputMoved, PoolError
from lowgraph.memory import Slice, readable

__all__ = ["CopyIn", "Input", "Pin", "Rebind", "Table"]

_REMEDY = (
    "write into the captured memory, or declare it as a pin that may move: CopyIn (one copy launch "
    "a replay), Rebind or Table (no launch)"
)
_ONE_SHAPE = "a graph is of one shape: make a step of its own for another"


def _is_fixed(memory: Any) -> bool:
    """Whether the same object means the same place, so that it need not be looked at again."""
    return type(memory) is ForeignMemory or (type(memory) is Slice and memory.alive)


class Pin:
    """A declared input: its name, where it is now, and where it was when the graph was recorded.

    Not for use by itself: see Input, CopyIn, Rebind, Table.
    """

    kind = "input"

    def __init__(self, name: str, source: Callable[[], Any] | Any) -> None:
        self.name = name
        self.label = ""
        self.now: Place | None = None
        self.captured: Place | None = None
        self.owner: Any = None
        self.moves = 0
        self._given: Any = None  # what the source returned last
        self._settled = False  # the last look was checked
        self._source: Callable[[], Any] = source if callable(source) else lambda: source

    # ---- what a body hands to a launch ----

    @property
    def address(self) -> int:
        """The device address to give to a kernel. Raises ConfigError outside a step."""
        return self._place().address

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the memory."""
        return self._place().shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Element type of what `address` points at."""
        return self._place().dtype

    @property
    def price(self) -> str:
        """What it costs, for the report."""
        return "pin=0 launches"

    # ---- for the step ----

    def look(self) -> bool:
        """Ask the source; returns whether it is elsewhere than at the last look.

        Raises InputMoved when it may not be there, and stays with the place before then: an input
        off its captured place, another shape or dtype, a slice that was given back.
        """
        memory = self._source()
        if self._settled and memory is self._given and _is_fixed(memory):
            return False
        try:
            place = describe(memory, self.name)
        except PoolError as error:
            raise self._gone(memory, error) from error
        if not place.nbytes:
            raise ConfigError(f"{self.kind} {self.name!r} has no bytes: {place}")
        before = self.now
        if before is not None and not self._may_be(place, before):
            raise self.moved(place, before)
        self._keep(memory, place)
        if before is None or place == before:
            return False
        self.moves += 1
        return True

    def look_anywhere(self) -> bool:
        """The same for a pass that is not a replay: where the live graph reads is no matter."""
        captured, self.captured, self._settled = self.captured, None, False
        try:
            return self.look()
        finally:
            self.captured, self._settled = captured, False

    def forget(self) -> None:
        """Its step is closed: it may be declared in another one."""
        self.label, self.now, self.captured, self.owner = "", None, None, None
        self._given, self._settled = None, False

    def moved(self, given: Place, captured: Place) -> InputMoved:
        """The error for memory that the graph cannot read."""
        fields = ("address", "generation", "shape", "dtype")
        differs = tuple(f for f in fields if getattr(given, f) != getattr(captured, f))
        remedy = _ONE_SHAPE if {"shape", "dtype"} & set(differs) else _REMEDY
        return InputMoved(
            self.name,
            captured.address,
            given.address,
            given.shape,
            differs=differs,
            message=f"{requester()}: {self.kind} {self.name!r} of {self.label!r} moved "
            f"({', '.join(differs)}): captured {captured}, given {given}; nothing was launched; "
            f"{remedy}",
        )

    def _keep(self, memory: Any, place: Place) -> None:
        before, self.now, self._given, self._settled = self.now, place, memory, True
        if place == before and not isinstance(memory, Slice | ForeignMemory):
            return  # what is kept already holds that memory
        self.owner = keeper_of(memory, place, self.name)

    def _may_be(self, place: Place, before: Place) -> bool:
        """Whether it may go on from `before` to `place`."""
        return (place.shape, place.dtype) == (before.shape, before.dtype)

    def _gone(self, memory: Any, error: PoolError) -> InputMoved:
        captured = self.captured or self.now
        return InputMoved(
            self.name,
            0 if captured is None else captured.address,
            0,
            tuple(memory.shape),
            differs=("lifetime",),
            message=f"{requester()}: {self.kind} {self.name!r} of {self.label!r} was given back: "
            f"{error}; nothing was launched; {_REMEDY}",
        )

    def _place(self) -> Place:
        if self.now is None:
            raise ConfigError(
                f"{self.kind} {self.name!r} has no address yet: give it to a GraphStep and use it "
                "in that step's body"
            )
        return self.now


class Input(Pin):
    """Memory that the graph reads where it was at the capture. It may not move.

    source: see the module. A replay with another address, generation, shape or dtype is refused
    (InputMoved) before anything is launched.
    state: the step is to leave it changed for the next one; a body that does not write it in place
    is told so (`capture.state_arrays`). Its source is asked once more after the body is recorded.
    """

    def __init__(self, name: str, source: Callable[[], Any] | Any, *, state: bool = False) -> None:
        super().__init__(name, source)
        self.state = state

    def _may_be(self, place: Place, before: Place) -> bool:
        return self.captured is None or place == self.captured


class CopyIn(Pin):
    """Memory that is copied into a fixed master before each pass and replay, by one launch.

    `address` is the master's, taken from the step's pool. price: one launch, and the bytes moved.
    """

    kind = "copy-in pin"
    master: Slice | None = None

    @property
    def address(self) -> int:
        """Address of the master."""
        self._place()
        assert self.master is not None, "a copy-in pin with a place has a master"
        return self.master.address

    @property
    def price(self) -> str:
        """One launch a replay."""
        nbytes = 0 if self.now is None else self.now.nbytes
        return f"pin=1 launch, {readable(nbytes)} copied a replay"

    def refuse_overlap(self) -> None:
        """Raise ConfigError when the source lies in the master: there would be nothing to copy."""
        source, master = self._place(), self.master
        if master is not None and abs(source.address - master.address) < source.nbytes:
            raise ConfigError(
                f"copy-in pin {self.name!r}: its source lies in its own master; declare an Input "
                "on memory that you write in place"
            )


class Rebind(Pin):
    """Memory whose new address is set in the executable's kernel nodes when it has moved.

    No copy and no launch. A replay in flight keeps the address that it was launched with.
    nodes: kernel nodes of the graph that hold the address.
    """

    kind = "rebind pin"
    nodes = 0

    @property
    def price(self) -> str:
        """No launch; one driver call a node when it moves."""
        return f"pin=0 launches, {self.nodes} nodes set a move, moved {self.moves} times"


class Table(Pin):
    """Memory whose address kernels read from a slot of a table on the device.

    `address` is the slot's, `dtype` uint64: the kernel's parameter is a pointer to a pointer.
    """

    kind = "table pin"
    slot: Slice | None = None

    @property
    def address(self) -> int:
        """Address of the slot."""
        self._place()
        assert self.slot is not None, "a table pin of a step has a slot"
        return self.slot.address

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the slot: an address."""
        return np.dtype(np.uint64)

    @property
    def price(self) -> str:
        """No launch; a slot written a move."""
        return f"pin=0 launches, slot written a move, moved {self.moves} times"
