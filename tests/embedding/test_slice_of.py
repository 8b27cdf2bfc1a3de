"""Arrays of another library that lie in the pool, as slices again: no copy."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from lowgraph.errors import ConfigError, PoolError
from lowgraph.interop import slice_of
from lowgraph.memory import download, upload
from tests.embedding.small import BLOCKS, N, Small

pytestmark = pytest.mark.both


class Array:
    """As an array with the CUDA array interface."""

    def __init__(self, address: int, shape: tuple[int, ...], dtype: str = "<f4") -> None:
        self.__cuda_array_interface__ = {
            "shape": shape, "typestr": dtype, "data": (address, False), "strides": None,
            "stream": None, "version": 3,
        }  # fmt: skip


def test_it_is_a_part_of_the_slice_with_the_arrays_shape_and_dtype(small: Small) -> None:
    piece = slice_of(Array(small.x.address + 132, (3, 11)), small.pool)
    assert (piece.address, piece.shape, piece.nbytes) == (small.x.address + 132, (3, 11), 132)
    assert piece.root is small.x and piece.name == "x" and piece.generation == small.x.generation
    assert slice_of(Array(small.x.address, (2 * N,), "<i2"), small.pool).dtype == np.int16
    small.pool.give_back(small.x)
    assert not piece.alive
    with pytest.raises(PoolError, match="was given back"):
        piece.address  # noqa: B018


def test_a_kernel_takes_it(small: Small) -> None:
    values = np.arange(N, dtype=np.float32)
    upload(small.x, values, small.stream)
    half = slice_of(Array(small.x.address + 4 * (N // 2), (N // 2,)), small.pool)
    small.add(small.stream, BLOCKS, 128, small.y, half, N // 2)
    assert (download(small.y, small.stream)[: N // 2] == 2 * values[N // 2 :]).all()


@pytest.mark.host
def test_a_tensor_over_a_slice(small: Small) -> None:
    torch = pytest.importorskip("torch")
    tensor = torch.from_dlpack(small.x)
    piece = slice_of(tensor[100:133], small.pool)
    assert (piece.address, piece.shape) == (small.x.address + 400, (33,))
    with pytest.raises(ConfigError, match="is strided: make it contiguous"):
        slice_of(tensor[::2], small.pool)


def beyond(small: Small) -> Array:
    return Array(small.x.address + 4, (N + 64,))


def elsewhere(small: Small) -> Array:
    return Array(small.rig.put(np.zeros(4, np.float32)).address, (4,))


def ended(small: Small) -> Array:
    piece = small.pool.take("ended", 4)
    address = piece.address
    small.pool.give_back(piece)
    return Array(address, (4,))


def only_held(small: Small) -> Array:
    """Of a graph: its memory is there, and nobody's to name."""
    piece = small.pool.take("held", 4)
    address, owner = piece.address, object()
    small.pool.hold(piece, owner)
    small.pool.give_back(piece)
    small._made.append(SimpleNamespace(close=lambda: small.pool.release(owner)))
    return Array(address, (4,))


@pytest.mark.parametrize("make", [beyond, elsewhere, ended, only_held])
def test_what_lies_in_no_slice_is_refused(small: Small, make: Any) -> None:
    with pytest.raises(ConfigError, match="lies in no slice of this pool: declare it as an Input"):
        slice_of(make(small), small.pool)
