"""Arena layout: a pure plan, and parts that tile the flat slice."""

from __future__ import annotations

import numpy as np
import pytest

from lowgraph.errors import PoolError
from lowgraph.memory import Arena, plan
from lowgraph.specs import TensorSpec
from tests.memory.fakes import make_pool

SPECS = [TensorSpec("w", (3, 7)), TensorSpec("b", (64,)), TensorSpec("scalar", ()),
         TensorSpec("last", (65,))]  # fmt: skip


def test_tensors_lie_in_order_at_multiples_of_256_bytes() -> None:
    layout = plan(SPECS)
    assert layout.offsets == (0, 64, 128, 192) and layout.elements == 320
    assert layout.padding == 320 - (21 + 64 + 1 + 65)


@pytest.mark.parametrize(
    ("specs", "message"),
    [
        ([], "at least one"),
        ([TensorSpec("w", (1,)), TensorSpec("w", (2,))], "twice: w"),
        ([TensorSpec("w", (1,)), TensorSpec("v", (1,), np.dtype("f8"))], "one dtype"),
    ],
)
def test_unusable_sets_are_refused(specs: list[TensorSpec], message: str) -> None:
    with pytest.raises(PoolError, match=message):
        plan(specs)


def test_parts_are_slices_of_one_block() -> None:
    pool, upstream = make_pool()
    arena = Arena(pool, "params", SPECS)
    assert upstream.allocs == 1 and list(arena) == ["w", "b", "scalar", "last"]
    assert [arena[name].address - arena.flat.address for name in arena] == [0, 256, 512, 768]
    assert arena["w"].shape == (3, 7) and arena["w"].name == "params.w"
    assert arena.offset("scalar") == 128 and arena.elements == 320
    moments = arena.like("moments")
    assert moments.layout == arena.layout and moments.flat.address != arena.flat.address
    arena.close()
    arena.close()
    assert not arena["w"].alive and moments["w"].alive
