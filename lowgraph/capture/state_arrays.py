"""Declared state: arrays that a step reads and is to leave changed for the next one.

A graph reads what it was recorded with in every replay. A body that computes the next state into
another array, and rebinds the name, iterates as a plain step and stands still as a graph.
"""

from __future__ import annotations

from collections.abc import Iterable

from lowgraph.capture.buffers import MemoryUses, uses_of
from lowgraph.capture.node_params import Contents
from lowgraph.capture.pinned_memory import Place, describe
from lowgraph.capture.pins import Input, Pin
from lowgraph.errors import PoolError
from lowgraph.memory import PersistentPool

__all__ = ["state_warnings"]

_WHY = "input and output differ; replay will not iterate"
_REMEDY = "write the state in place, or copy the result back into it at the end of the body"


def state_warnings(pins: Iterable[Pin], contents: Contents, pool: PersistentPool) -> list[str]:
    """A warning for each declared state that the recorded body did not write in place.

    Call it when the body has been recorded: a state's source is asked once more.
    """
    states = [pin for pin in pins if isinstance(pin, Input) and pin.state]
    if not states:
        return []
    uses = uses_of(contents)
    warnings = []
    for pin in states:
        read = pin._place()
        told = _rebound(pin, read) or _unwritten(read, uses, pool)
        if told:
            warnings.append(f"state {pin.name!r}: {_WHY}: {told}; {_REMEDY}")
    return warnings


def _rebound(pin: Input, read: Place) -> str:
    try:
        left = describe(pin._source(), pin.name)
    except PoolError:
        return f"the body reads {read} and leaves the state in a slice that was given back"
    return "" if left == read else f"the body reads {read} and leaves the state in {left}"


def _unwritten(read: Place, uses: MemoryUses, pool: PersistentPool) -> str:
    written = uses.may_write(pool, read.address)
    return "" if written else f"no node of the graph writes {read}"
