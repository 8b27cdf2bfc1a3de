"""Numbers that are no integers are refused: the bindings and NumPy would take something else."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import closing
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from lowgraph import driver
from lowgraph.blas import Blas, Product
from lowgraph.blas.layer import Form, Layer
from lowgraph.capture import ForeignMemory, GraphStep, ShapeKeyedSteps
from lowgraph.driver import memory, stream
from lowgraph.driver.launch import LaunchConfig
from lowgraph.errors import ArgTypeError, ConfigError, PoolError
from lowgraph.integers import integer
from lowgraph.memory import PersistentPool
from lowgraph.models.branches import branch_count
from lowgraph.ops import RandomState
from lowgraph.ops.control import new_control
from tests.support.rig import Rig

NO_INTEGERS = [1.5, 2.0, True, False, "1", None, np.float32(2), np.bool_(True), Decimal(1)]


@pytest.mark.parametrize("value", [*NO_INTEGERS, math.nan, math.inf], ids=repr)
def test_what_is_no_integer_is_told_with_whose_it_is(value: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        integer(value, "the count", 1)
    assert str(caught.value) == f"the count must be an integer of at least 1, got {value!r}"


@pytest.mark.parametrize("value", [7, np.int8(7), np.uint64(7), np.array(7)], ids=repr)
def test_integers_of_any_kind_come_back_as_an_int(value: Any) -> None:
    assert type(integer(value, "the count", 7, 7)) is int
    assert integer(value, "the count") == 7


@pytest.mark.parametrize(
    ("low", "high", "told"),
    [(8, None, " of at least 8"), (None, 6, " of at most 6"), (8, 9, " from 8 to 9")],
)
def test_a_number_out_of_range_is_told_with_the_range(
    low: int | None, high: int | None, told: str
) -> None:
    with pytest.raises(ConfigError, match=f"^n must be an integer{told}, got 7$"):
        integer(7, "n", low, high)


@pytest.mark.both
@pytest.mark.parametrize("priority", [1.5, -1.5, True, "0", None, 1, -100, 1 << 40], ids=repr)
def test_a_priority_that_no_stream_has_is_refused(rig: Rig, priority: Any) -> None:
    """1.5 was 1, which the driver made 0; -100 was the greatest."""
    greatest = stream.greatest_priority()
    told = f"the stream's priority must be an integer from {greatest} to 0, got {priority!r}"
    with pytest.raises(ConfigError) as caught:
        stream.create(priority=priority)
    assert str(caught.value) == told


@pytest.mark.both
@pytest.mark.parametrize("priority", [np.int64(0), np.int32(-1)], ids=repr)
def test_a_priority_may_be_a_numpy_integer(rig: Rig, priority: Any) -> None:
    made = stream.create(priority=priority)
    assert stream.priority_of(made) == int(priority)
    stream.destroy(made)


def _of_memory(rig: Rig, number: Any) -> list[tuple[str, Callable[[], object]]]:
    """By what is named: calls that are given the number for it."""
    a, b, here = 256, 512, rig.stream  # addresses that nothing reads: the call is not made
    return [
        ("cuMemAlloc: nbytes", lambda: memory.alloc(number)),
        ("cuMemHostAlloc: nbytes", lambda: memory.host_alloc(number)),
        ("cuMemcpyHtoDAsync: nbytes", lambda: memory.copy_htod_async(a, b, number, here)),
        ("cuMemcpyDtoHAsync: nbytes", lambda: memory.copy_dtoh_async(a, b, number, here)),
        ("cuMemcpyDtoDAsync: nbytes", lambda: memory.copy_dtod_async(a, b, number, here)),
        ("cuMemsetD8Async: count", lambda: memory.memset_d8_async(a, 0, number, here)),
        ("cuMemsetD8Async: value", lambda: memory.memset_d8_async(a, number, 4, here)),
        ("cuMemsetD32Async: count", lambda: memory.memset_d32_async(a, 0, number, here)),
        ("cuMemsetD32Async: value", lambda: memory.memset_d32_async(a, number, 4, here)),
    ]


@pytest.mark.both
@pytest.mark.parametrize("number", [10.5, 2.0, True, None, -1, np.float64(3), 1 << 64], ids=repr)
def test_sizes_and_values_of_memory_calls(rig: Rig, number: Any) -> None:
    for what, call in _of_memory(rig, number):
        with pytest.raises(ConfigError, match=f"^{what} must be an integer from 0 to \\d+, got "):
            call()


@pytest.mark.both
def test_memory_calls_take_numpy_integers(rig: Rig) -> None:
    buffer = rig.put(np.zeros(4, np.uint32))
    memory.memset_d32_async(buffer.address, np.uint32(0xFFFFFFFF), np.int64(2), rig.stream)
    memory.memset_d8_async(buffer.address + 8, np.uint8(255), np.int16(1), rig.stream)
    assert rig.get(buffer).tolist() == [0xFFFFFFFF, 0xFFFFFFFF, 0xFF, 0]


@pytest.mark.both
@pytest.mark.parametrize("size", [True, (32, True), 1.5, (1, 2.0)], ids=repr)
def test_sizes_of_a_launch(rig: Rig, size: Any) -> None:
    fill = rig.library.kernel("fill.cu", "fill")
    with pytest.raises(ConfigError, match=r"grid .*: must be one to three integers"):
        LaunchConfig(rig.stream, size, 32)
    with pytest.raises(ConfigError, match=r"block .*: must be one to three integers"):
        LaunchConfig(rig.stream, 1, size)
    with pytest.raises(ConfigError, match="shared must be an integer of at least 0, got True"):
        LaunchConfig(rig.stream, 1, 32, True)
    with pytest.raises(ArgTypeError, match="shared"):
        fill.allow_shared(True)


@pytest.mark.both
def test_sizes_of_slices_and_of_foreign_memory(rig: Rig) -> None:
    with closing(PersistentPool(rig.device)) as pool:
        for shape in (True, (2, True), [False]):
            with pytest.raises(PoolError, match="must be integers of at least 0"):
                pool.take("x", shape)  # type: ignore[arg-type]
        piece = pool.take("x", 8)
        for offset in (1.5, True, "1"):
            with pytest.raises(PoolError, match="part of slice 'x': offset must be an integer"):
                piece.part(offset, (1,))  # type: ignore[arg-type]
        assert piece.part(np.int64(3), (1,)).address == piece.address + 12  # type: ignore[arg-type]
        pool.give_back(piece)
    with pytest.raises(ConfigError, match="describe no memory: a size must be an integer"):
        ForeignMemory(256, 8, None, shape=(True,))
    with pytest.raises(ConfigError, match="the pool's limit must be an integer of at least 0"):
        PersistentPool(rig.device, limit=1e9)  # type: ignore[arg-type]


@pytest.mark.both
@pytest.mark.parametrize("value", [0.5, 1e3, True, -1, 1 << 64], ids=repr)
def test_seeds_and_steps(rig: Rig, value: Any) -> None:
    """NumPy took 0.5 for 0, so that two seeds drew the same numbers."""
    with closing(PersistentPool(rig.device)) as pool:
        given: dict[str, Any] = {"pool": pool, "library": rig.library, "stream": rig.stream}
        random = RandomState(seed=3, **given)
        with pytest.raises(ConfigError, match=r"^random state: seed must be an integer from 0 to "):
            random.seed(value)
        with pytest.raises(ConfigError, match=r"^random state: offset must be an integer from 0"):
            random.write(1, value)
        assert random.read() == (3, 0)
        random.close()
    for name in ("seed", "step", "warmup_steps", "total_steps"):
        settings = {"total_steps": 10, "lr_max": 1e-3, name: value}
        with pytest.raises(ConfigError, match=f"^control block: {name} must be an integer from"):
            new_control(**settings)


def _nothing(stream: int) -> None:
    """A body that does nothing."""


@pytest.mark.both
@pytest.mark.parametrize("value", [1.5, True, "2"], ids=repr)
def test_counts_of_steps_products_and_branches(rig: Rig, value: Any) -> None:
    pool = PersistentPool(rig.device)
    given: dict[str, Any] = {"device": rig.device, "pool": pool, "stream": rig.stream}
    for name in ("max_graphs", "max_bytes", "retry_after"):
        with pytest.raises(ConfigError, match=f"^{name} must be an integer of at least 1, got "):
            ShapeKeyedSteps(lambda key: GraphStep(_nothing, **given), pool=pool, **{name: value})
    with pytest.raises(
        ConfigError, match=r"^'step': max_refusals must be an integer of at least 0"
    ):
        GraphStep(_nothing, max_refusals=value, **given)
    with pytest.raises(ConfigError, match=r"side streams, must be an integer of at least 0"):
        branch_count(value, 64)
    blas = Blas(rig.device, rig.library, rig.stream, pool, workspace=4096)
    for name in ("m", "n", "k"):
        product = Product(8, 8, 8)._replace(**{name: value})
        with pytest.raises(ConfigError, match=f"^gemm: {name} must be an integer, got "):
            blas.prepare([product])
    for name in ("rows", "inputs", "outputs", "columns"):
        layer = Layer(Form.BIAS, 8, 8, 8)._replace(**{name: value})
        with pytest.raises(ConfigError, match=f"^linear: {name} must be an integer, got "):
            blas.prepare([layer])
    blas.close()
    pool.close()


@pytest.mark.both
def test_a_workspace_of_no_bytes_leaves_the_one_there_was(rig: Rig) -> None:
    """A size that only the pool refused left the streams without any workspace."""
    with closing(PersistentPool(rig.device)) as pool:
        blas = Blas(rig.device, rig.library, rig.stream, pool, workspace=4096)
        before = blas.workspace
        for size in (0, -1, 4096.5, True):
            with pytest.raises(ConfigError, match="a workspace's bytes must be an integer of at "):
                blas.resize(size)  # type: ignore[arg-type]
            assert blas.workspace is before and before.alive
        with pytest.raises(ConfigError, match="a workspace's bytes must be an integer of at "):
            Blas(rig.device, rig.library, rig.stream, pool, workspace=0)
        blas.close()


@pytest.mark.both
@pytest.mark.parametrize("value", [0.5, True, -1, 1 << 32], ids=repr)
def test_a_conditions_default(rig: Rig, value: Any) -> None:
    with pytest.raises(ConfigError, match=r"^a condition's default must be an integer from 0 to "):
        driver.conditional.create_handle(0, value)
