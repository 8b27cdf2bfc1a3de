"""Tensors of PyTorch, whose CPU build shares the host device's memory, in a step and out of it."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

from lowgraph.capture import CopyIn, Input, Phase
from lowgraph.errors import ConfigError, InputMoved
from lowgraph.interop import foreign_memory, ordered
from lowgraph.memory import download
from tests.embedding.small import N, Small

pytestmark = pytest.mark.host
torch = pytest.importorskip("torch", reason="the oracle extra is not installed")


@pytest.mark.parametrize("of", [lambda piece, stream: piece, ordered])
def test_a_slice_and_a_tensor_are_one_memory(small: Small, of: Any) -> None:
    tensor = torch.from_dlpack(of(small.x, small.stream))
    assert (tensor.dtype, tuple(tensor.shape)) == (torch.float32, (N,))
    tensor.fill_(3)
    assert (download(small.x, small.stream) == 3).all()
    assert np.shares_memory(np.from_dlpack(small.x), tensor.numpy())


def test_bfloat16_travels_as_its_bits(small: Small) -> None:
    piece = small.pool.take("piece", (2, 3), np.uint16)
    tensor = torch.from_dlpack(piece).view(torch.bfloat16)
    tensor.fill_(1.5)
    assert (download(piece, small.stream) == 0x3FC0).all()
    assert foreign_memory(tensor).dtype == np.uint16
    assert foreign_memory(tensor).address == piece.address


def test_a_tensor_given_other_memory_is_refused_and_the_old_is_kept(small: Small) -> None:
    behind = np.full(N, 2, np.float32)
    tensor, kept = torch.from_numpy(behind), weakref.ref(behind)
    step = small.over(pin := Input("x", tensor), inputs=[pin])
    for _ in range(3):
        step()
    assert small.value() == 12
    del behind
    tensor.data = torch.full((N,), 9.0)
    assert kept() is not None, "a replay in flight may read it"
    with pytest.raises(InputMoved, match=r"'x' of 'step' moved \(address\)"):
        step()
    assert step.phase is Phase.READY and small.value() == 12
    step.close()
    assert kept() is None


def test_a_pin_follows_a_tensor(small: Small) -> None:
    tensor = torch.full((N,), 2.0)
    step = small.over(pin := CopyIn("x", tensor), pins=[pin])
    for value in (2.0, 3.0, 4.0, 5.0):
        tensor.data = torch.full((N,), value)
        step()
        small.rig.sync()
    assert small.value() == 2 * (2 + 3 + 4 + 5)
    assert step.report().pin_launches == 1


def test_freed_storage_is_refused(small: Small) -> None:
    tensor = torch.full((N,), 2.0)
    step = small.over(pin := CopyIn("x", tensor), pins=[pin])
    step()
    step()
    small.rig.sync()
    tensor.untyped_storage().resize_(0)
    with pytest.raises(InputMoved, match="its Tensor has no memory any more, it was freed"):
        step()


def test_a_parameter_says_how_to_give_it(small: Small) -> None:
    parameter = torch.nn.Parameter(torch.ones(N))
    step = small.over(pin := Input("w", parameter), inputs=[pin])
    with pytest.raises(ConfigError, match=r"input 'w'.*Parameter.*DLPack: .*tensor.detach\(\)"):
        step()
    step.close()
    step = small.over(pin := Input("w", parameter.detach), inputs=[pin])
    for _ in range(3):
        step()
    assert step.report().replays == 2


def test_a_strided_tensor_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"'t' .*strided: make it contiguous"):
        foreign_memory(torch.ones(4, 6).T, "t")


def test_a_tensor_outlives_slice_and_pool(small: Small) -> None:
    piece = small.put("piece", 5)
    tensor = torch.from_dlpack(piece)
    small.pool.give_back(piece)
    del piece
    gc.collect()
    small.pool.take("other", N)
    assert (tensor == 5).all()
