"""What `cupy_ops` sets in CuPy and puts back, in order, per thread, whatever ends the block.

With CuPy's entry points recorded (fake_cupy), and the pool, the window and the graph real.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

from lowgraph.capture import Phase
from lowgraph.errors import (
    CaptureAllocationError,
    CaptureIncomplete,
    CaptureRefused,
    ConfigError,
    PoolError,
    SyncDuringCapture,
)
from lowgraph.interop import cupy_block, cupy_library, cupy_ops
from lowgraph.memory import open_window
from tests.embedding import fake_cupy as fake
from tests.embedding.small import BLOCKS, N, Small

pytestmark = [pytest.mark.host, pytest.mark.usefixtures("recorded")]

Act = Callable[[Any], object]


class Body:
    """y += 2 x behind a block of CuPy's, in which `act` runs with CuPy's stream."""

    def __init__(self, small: Small, act: Act = lambda stream: None) -> None:
        self.small = small
        self.act = act
        self.seen: list[Any] = []

    def __call__(self, stream: int) -> None:
        small = self.small
        with cupy_ops(small.pool, stream) as theirs:
            self.seen.append((fake.state.current.ptr, theirs.ptr, fake.state.may_wait))
            self.act(theirs)
        small.add(stream, BLOCKS, 128, small.y, small.x, N)


def test_the_stream_is_the_bodys_in_each_pass_and_waits_are_forbidden_in_the_window(
    small: Small,
) -> None:
    body = Body(small, lambda stream: fake.alloc(64))
    step = small.ready(body=body)
    assert step.phase is Phase.READY
    at = small.stream
    assert body.seen == [(at, at, True), (at, at, False)]


def test_stale_errors_are_looked_for_at_both_ends_whatever_ends_the_block(
    small: Small, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[tuple[str, int]] = []

    def look(where: str) -> None:
        looked.append((where.rpartition("/")[2].partition(":")[0], fake.state.current.ptr))

    def act(stream: Any) -> None:
        raise KeyError

    monkeypatch.setattr(cupy_block.runtime_errors, "take_stale", look)
    with pytest.raises(KeyError):
        small.step(body=Body(small, act))()
    assert looked == [("test_cupy_order.py", fake.NULL.ptr)] * 2, "outside of it"


class Left(Exception):
    pass


@pytest.mark.parametrize("error", [Left, KeyboardInterrupt])
def test_all_is_put_back_whatever_leaves_the_block(
    small: Small, error: type[BaseException]
) -> None:
    other = fake._BaseStream(4096, 0).use()  # chosen by use(): on no stack

    def act(stream: Any) -> None:
        if open_window.mine() is not None:
            raise error("mine")

    step = small.step(body=Body(small, act))
    step.prime()
    assert fake.state.current is other and fake.state.stack == [fake.NULL]
    with pytest.raises(error, match="mine"):
        step.capture()
    assert fake.state.current is other
    fake.NULL.use()


def test_a_with_of_the_bodys_own_comes_back_to_the_bodys_stream(small: Small) -> None:
    after: list[int] = []

    def act(stream: Any) -> None:
        with fake._BaseStream(4096, 0):
            pass
        after.append(fake.state.current.ptr)

    small.ready(body=Body(small, act))
    assert after == [small.stream] * 2, "not to what was current before the block"


def test_another_threads_cupy_is_left_alone(small: Small) -> None:
    found: list[Any] = []

    def act(stream: Any) -> None:
        def look() -> None:
            found.append((fake.get_current_stream(), fake.state.allocator, fake.state.may_wait))

        thread = threading.Thread(target=look)
        thread.start()
        thread.join()

    small.ready(body=Body(small, act))
    assert found == [(fake.NULL, None, True)] * 2


def test_arrays_are_slices_of_the_pool_and_their_owner_is_held(small: Small) -> None:
    owned: list[Any] = []

    def act(stream: Any) -> None:
        pointer = fake.alloc(4 * N)
        piece = small.pool.who_owns(pointer.ptr)
        owned.append((piece is not None and piece.name, pointer.mem.size, pointer.mem.device_id))
        assert fake.alloc(0).ptr != 0
        del pointer
        again = fake.alloc(4 * N)
        owned.append(again.ptr)

    small.ready(body=Body(small, act))
    ordinal = small.rig.device.ordinal
    assert owned[0] == owned[2] == ("CuPy's array 0", 4 * N, ordinal)


def test_what_the_window_has_not_is_refused_also_where_cupy_hides_it(small: Small) -> None:
    """A sort of CuPy's answers a refused allocation by MemoryError."""

    def act(stream: Any) -> None:
        if open_window.mine() is None:
            return
        try:
            fake.alloc(1 << 26)
        except CaptureAllocationError:
            raise MemoryError from None

    step = small.step(body=Body(small, act))
    step.prime()
    with pytest.raises(CaptureAllocationError, match="CuPy's array 0"):
        step.capture()


def test_cupys_current_stream_changed_in_the_block_is_refused_at_an_array(small: Small) -> None:
    def act(stream: Any) -> None:
        if open_window.mine() is not None:
            with fake._BaseStream(4096, 0):
                fake.alloc(64)
        else:
            fake.alloc(64)

    step = small.step(body=Body(small, act))
    step.prime()
    with pytest.raises(CaptureIncomplete, match="CuPy sends its work to stream 0x1000"):
        step.capture()


def test_a_copy_to_the_host_is_refused_before_it_waits(small: Small) -> None:
    step = small.step(body=Body(small, lambda stream: fake.get()))
    step.prime()
    with pytest.raises(SyncDuringCapture, match="would wait for the device") as caught:
        step.capture()
    assert "read results after the step" in caught.value.remedy
    assert isinstance(caught.value.__cause__, fake.DeviceSynchronized)


WAITS: dict[str, tuple[Act, type[CaptureRefused], str]] = {
    "synchronize": (lambda s: s.synchronize(), SyncDuringCapture, "read results after the step"),
    "done": (lambda s: s.done, SyncDuringCapture, "read results after the step"),
    "add_callback": (lambda s: s.add_callback(print, None), CaptureRefused, "use launch_host_func"),
    "begin_capture": (lambda s: s.begin_capture(), CaptureRefused, "leave that to the step"),
    "end_capture": (lambda s: s.end_capture(), CaptureRefused, "leave that to the step"),
}


@pytest.mark.parametrize("name", WAITS)
def test_what_has_no_place_on_the_stream_is_refused_in_the_window_only(
    small: Small, name: str
) -> None:
    act, kind, remedy = WAITS[name]
    step = small.step(body=Body(small, act))
    step.prime()
    before = list(fake.waited)
    assert before == ([] if name == "done" else [small.stream]), "CuPy's own, in a plain pass"
    with pytest.raises(kind, match=remedy) as caught:
        step.capture()
    assert type(caught.value) is kind and fake.waited == before
    assert "test_cupy_order.py:" in str(caught.value.where)


def test_a_function_for_the_host_is_the_graphs(small: Small) -> None:
    calls: list[str] = []
    step = small.step(body=Body(small, lambda s: s.launch_host_func(calls.append, "called")))
    for _ in range(4):
        step()
    small.rig.sync()
    assert step.report().nodes_by_type == {"kernel": 1, "host": 1}
    assert calls == ["called"] * 4


def test_outside_of_a_body_and_inside_of_itself_it_is_refused(small: Small) -> None:
    with pytest.raises(PoolError, match="Call it in the body"), cupy_ops(small.pool, small.stream):
        raise AssertionError

    def act(stream: Any) -> None:
        with cupy_ops(small.pool, stream):
            raise AssertionError

    with pytest.raises(ConfigError, match="end the outer block first") as caught:
        small.step(body=Body(small, act))()
    assert "test_cupy_order.py:" in str(caught.value)


def test_on_the_host_device_it_is_refused_with_what_to_do(
    small: Small, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    with pytest.raises(ConfigError, match="CuPy runs on GPUs, and this process's device is host"):
        small.step(body=Body(small))()


@pytest.mark.parametrize("version", ["12.3.0", "15.0.0", "nightly"])
def test_another_major_of_cupy_is_refused(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    other = type(sys)("cupy")
    other.__version__ = version  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "cupy", other)
    with pytest.raises(ConfigError, match=f"needs CuPy 13 or 14, this is {version}: pip install"):
        cupy_library.load("this")
