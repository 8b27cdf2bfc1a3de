"""Case 19: what the kernel arguments pointed at dies before the graph does."""

from __future__ import annotations

import ctypes
import gc

import numpy as np
import pytest

from lowgraph import driver
from lowgraph.capture import Phase
from lowgraph.errors import ArgTypeError
from lowgraph.memory import download, open_window, upload
from tests.capture.micro import BLOCKS, Micro
from tests.field_cases.bare import BLOCK, GRID, SOURCE, Bare, N


def test_bare_a_replay_writes_into_the_next_owner(bare: Bare) -> None:
    fill = bare.kernel("fill")
    address = driver.memory.alloc(4 * N)
    graph = bare.ready(lambda: fill(bare.stream, GRID, BLOCK, address, 7.0, N))
    # The owner, an inline temporary, is dead after the launch call; its bytes are handed on.
    driver.memory.memset_d32_async(address, 0, N, bare.stream)
    bare.replay(graph)
    values = np.empty(N, np.float32)
    driver.memory.copy_dtoh_async(values.ctypes.data, address, values.nbytes, bare.stream)
    bare.rig.sync()
    assert np.all(values == 7.0), "the new owner cleared it, the old graph wrote"
    driver.memory.free(address)


def test_bare_a_scalar_of_the_wrong_width_is_taken_silently(bare: Bare) -> None:
    fill, out = bare.kernel("fill"), bare.rig.empty(N)
    pointer, wrong = ctypes.c_uint64(out.address), ctypes.c_double(7.0)
    count = ctypes.c_int(N)
    held = (pointer, wrong, count)
    pointers = (ctypes.c_void_p * 3)(*(ctypes.addressof(value) for value in held))
    config = driver.launch.LaunchConfig(bare.stream, GRID, BLOCK)
    driver.launch.launch(config, fill.handle, ctypes.addressof(pointers))
    assert not np.any(bare.rig.get(out) == 7.0), "the low half of a double, no error"


def test_the_graph_keeps_what_an_inline_temporary_named(micro: Micro) -> None:
    fill = micro.rig.library.kernel(SOURCE, "fill")
    addresses: list[int] = []

    def inline(number: int) -> None:
        temporary = micro.pool.take("temporary", N)
        addresses.append(temporary.address)
        fill(micro.stream, BLOCKS, 128, temporary, 7.0, N)

    micro.extra = inline
    step = micro.step()
    step()
    step()
    gc.collect()
    fresh = [micro.pool.take(f"fresh {n}", N) for n in range(8)]
    assert addresses[-1] not in {piece.address for piece in fresh}
    for piece in fresh:
        upload(piece, np.zeros(N, np.float32), micro.stream)
    step()
    assert all(not download(piece, micro.stream).any() for piece in fresh)
    step.close()
    again = [micro.pool.take(f"again {n}", N) for n in range(8)]
    assert addresses[-1] in {piece.address for piece in again}, "kept until close, not longer"


def test_an_input_given_back_is_kept_for_the_graph_too(micro: Micro) -> None:
    step = micro.step()
    step()
    step()
    values = download(micro.x, micro.stream)
    address = micro.x.address
    micro.pool.give_back(micro.x)
    fresh = micro.pool.take("fresh", N)
    assert fresh.address != address and values.size == N
    upload(fresh, np.zeros(N, np.float32), micro.stream)
    step()
    assert step.phase is Phase.READY and micro.state() == micro.expected(3)


@pytest.mark.parametrize(
    ("value", "given"), [("7", "str"), (None, "None"), (np.zeros(2, np.float32), "ndarray")]
)
def test_a_scalar_that_does_not_fit_is_refused_by_name(
    micro: Micro, value: object, given: str
) -> None:
    fill = micro.rig.library.kernel(SOURCE, "fill")

    def wrong(number: int) -> None:
        if open_window.mine() is not None:
            fill(micro.stream, BLOCKS, 128, micro.y, value, N)

    micro.extra = wrong
    step = micro.step()
    step()
    with pytest.raises(ArgTypeError) as raised:
        step()
    error = raised.value
    assert (error.kernel, error.wanted) == ("fill", "float") or "value" in str(error)
    assert "fill" in str(error) and given in str(error)


def test_numbers_are_packed_by_the_declared_type(micro: Micro) -> None:
    """The widths of the caller's numbers do not matter: double, float64, int64 all become float."""
    fill = micro.rig.library.kernel(SOURCE, "fill")
    out = micro.pool.take("out", N)
    for value in (7.0, np.float64(7), np.float32(7), 7, np.int64(7)):
        upload(out, np.zeros(N, np.float32), micro.stream)
        fill(micro.stream, BLOCKS, 128, out, value, np.int64(N))
        assert np.all(download(out, micro.stream) == 7.0)
