"""Memory of others in a step: named, kept, and refused at the replay that would read another's."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

from lowgraph import debug, driver
from lowgraph.capture import CopyIn, Input, Phase, Rebind, Table
from lowgraph.errors import ConfigError, InputMoved
from lowgraph.interop import ForeignBuffer
from tests.embedding.arrays import Exporter
from tests.embedding.small import N, Small
from tests.embedding.theirs import Theirs, buffer_at

pytestmark = pytest.mark.both


class Owner:
    """Whoever allocated the memory."""


def launches(small: Small, step: Any) -> int:
    with small.rig.device.count_calls() as count, pytest.raises(InputMoved) as caught:
        step()
    assert caught.value.name == "x"
    return sum(calls for name, calls in count.calls.items() if "Launch" in name)


def test_a_buffer_is_read_where_it_is(small: Small, theirs: Theirs) -> None:
    buffer = buffer_at(theirs.alloc(3))
    step = small.over(pin := Input("x", buffer), inputs=[pin])
    for _ in range(3):
        step()
    assert small.value() == 18 and step.report().replays == 2
    assert [one.name for one in debug.read(step).memory if one.role == "foreign"] == ["weights"]


@pytest.mark.parametrize("watch", [True, False])
def test_a_move_is_refused_by_name_and_followed_by_a_pin(
    small: Small, theirs: Theirs, watch: bool
) -> None:
    first, second = theirs.alloc(3), theirs.alloc(5)
    buffer = buffer_at(first, watch=watch)
    step = small.over(pin := Input("x", buffer), inputs=[pin])
    pinned = small.over(copy := CopyIn("x", buffer), pins=[copy])
    for each in (step, step, pinned, pinned):
        each()
    buffer.moved(second)
    assert launches(small, step) == 0 and step.phase is Phase.READY
    before = small.value()
    pinned()
    assert small.value() - before == 10
    buffer.moved(first)
    assert buffer.generation == 2
    with pytest.raises(InputMoved, match=r"moved \(generation\)"):
        step()


@pytest.mark.parametrize("kind", [Input, CopyIn, Rebind, Table])
@pytest.mark.parametrize("told", [True, False])
def test_a_free_is_refused_before_the_launch(
    small: Small, theirs: Theirs, told: bool, kind: Any
) -> None:
    """Whether its owner tells, or the driver has to be asked."""
    buffer = buffer_at(address := theirs.alloc(3), watch=not told)
    pin = kind("x", buffer)
    table = small.rig.library.kernel(small.add.signature.file, "add_twice_of_table")
    kernel = table if kind is Table else small.add
    step = small.step(
        lambda s: kernel(s, 8, 128, small.y, pin, N),
        **{"inputs" if kind is Input else "pins": [pin]},
    )
    for _ in range(3):
        step()
    small.rig.sync()
    theirs.free(address)
    if told:
        buffer.freed()
    assert launches(small, step) == 0
    words = (
        r"weights at 0x\w+ was freed at \S*test_foreign_buffer.py:\d+"
        if told
        else (r"weights was freed: 0x\w+ is no memory now; tell of a move by moved\(\)")
    )
    with pytest.raises(InputMoved, match=words) as caught:
        step()
    assert caught.value.differs == ("lifetime",)


def test_an_address_that_was_handed_out_again_is_refused(
    small: Small, theirs: Theirs, monkeypatch: pytest.MonkeyPatch
) -> None:
    buffer = buffer_at(theirs.alloc(3))
    step = small.over(pin := Input("x", buffer), inputs=[pin])
    step()
    step()
    known = driver.memory.allocation

    def again(address: int) -> Any:
        found = known(address)
        return None if found is None else driver.memory.Allocation(found.address, found.nbytes, 0)

    monkeypatch.setattr(driver.memory, "allocation", again)
    with pytest.raises(InputMoved, match="belongs to another allocation now"):
        step()


def test_the_graph_keeps_the_owner_and_a_move_lets_go_of_it(small: Small, theirs: Theirs) -> None:
    first, second = Owner(), Owner()
    refs = weakref.ref(first), weakref.ref(second)
    buffer = buffer_at(theirs.alloc(3), owner=first)
    step = small.over(pin := Rebind("x", buffer), pins=[pin])
    for _ in range(2):
        step()
    buffer.moved(theirs.alloc(5), owner=second)
    del first, second
    gc.collect()
    assert refs[0]() is not None, "a replay may read the old place until the step has followed"
    step()
    small.rig.sync()
    buffer.moved(theirs.alloc(7), owner=Owner())
    step()  # sees that what read the first place is done
    small.rig.sync()
    step.close()
    gc.collect()
    assert [ref() for ref in refs] == [None, None]


def test_a_dlpack_array_is_kept_by_the_step_that_reads_it(small: Small) -> None:
    exporter = Exporter(small.x)
    array = exporter.export()
    step = small.over(pin := Input("x", lambda: array), inputs=[pin])
    for _ in range(4):
        step()
    gc.collect()
    open_capsules = len(exporter.asked) - exporter.let_go
    assert open_capsules == 1, "one is kept, the looks at each replay are let go of"
    step.close()
    gc.collect()
    assert exporter.let_go == len(exporter.asked)


def test_a_dlpack_array_that_moves_is_refused(small: Small) -> None:
    exporter, other = Exporter(small.x), small.put("other", 4)
    step = small.over(pin := Input("x", exporter.export()), inputs=[pin])
    step()
    step()
    exporter.address = other.address
    assert launches(small, step) == 0
    exporter.address = 0
    with pytest.raises(InputMoved, match="its Foreign has no memory any more, it was freed"):
        step()


@pytest.mark.parametrize(
    ("nbytes", "shape", "told"),
    [
        (4 * N + 4, None, r"4004 bytes at 0x\w+ are no device memory of one allocation: .* 4000"),
        (4 * N, (N + 1,), r"\(4004 bytes\) does not lie in 4000 bytes"),
    ],
)
def test_more_than_there_is_is_refused(theirs: Theirs, nbytes: int, shape: Any, told: str) -> None:
    with pytest.raises(ConfigError, match=f"weights: .*{told}"):
        ForeignBuffer(theirs.alloc(1), nbytes, None, shape=shape, dtype="f4", name="weights")


def test_host_memory_is_refused(device: Any) -> None:
    array = np.zeros(4)
    with pytest.raises(ConfigError, match="the driver knows none there"):
        ForeignBuffer(array.ctypes.data, array.nbytes, array)


def test_a_move_to_no_memory_changes_nothing(theirs: Theirs) -> None:
    buffer = buffer_at(address := theirs.alloc(1))
    with pytest.raises(ConfigError, match="none there"):
        buffer.moved(4096)
    assert (buffer.address, buffer.generation, buffer.nbytes) == (address, 0, 4 * N)
    assert "generation 0" in repr(buffer)
