"""Warp operations against a NumPy model, with random masks, partial warps and returned lanes."""

from __future__ import annotations

from ctypes import c_float, c_int

import numpy as np
import numpy.typing as npt
import pytest

from tests.hostdev.harness import Engine, Image, build_kernels

pytestmark = pytest.mark.host
Ints = npt.NDArray[np.integer]
SIZES = (1, 31, 32, 33, 64, 257)
INDEX, UP, DOWN, XOR = range(4)


@pytest.fixture(scope="module")
def warps(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Image:
    return build_kernels("warps", tmp_path_factory.mktemp("warps"))


def _lanes_of(warp: int, threads: int) -> list[int]:
    return list(range(min(32, threads - 32 * warp)))


def _mask(lanes: list[int]) -> int:
    return sum(1 << lane for lane in lanes)


def _random_groups(rng: np.random.Generator, units: list[list[int]]) -> list[list[int]]:
    """Lanes put into up to four groups, unit by unit; group 0 sits the step out."""
    chosen = rng.integers(0, 4, len(units))
    groups = [[lane for unit, c in zip(units, chosen, strict=True) if c == g for lane in unit]
              for g in range(1, 4)]  # fmt: skip
    return [group for group in groups if group]


class Steps:
    """Random steps for the kernel `shuffles`, and what each must give by the CUDA guide's rules."""

    def __init__(self, rng: np.random.Generator, threads: int, steps: int) -> None:
        shape = (steps, threads)
        self.x = rng.integers(-(1 << 31), 1 << 31, shape).astype(np.int32)
        self.masks, self.args = np.zeros(shape, np.uint32), np.zeros(shape, np.int32)
        self.modes = rng.integers(0, 4, steps).astype(np.int32)
        self.widths = (2 ** rng.integers(0, 6, steps)).astype(np.int32)
        self.wanted = np.full(shape, -1, np.int32)
        for step in range(steps):
            for warp in range((threads + 31) // 32):
                self._fill(rng, step, warp, _lanes_of(warp, threads))

    def _fill(self, rng: np.random.Generator, step: int, warp: int, lanes: list[int]) -> None:
        width, mode = int(self.widths[step]), int(self.modes[step])
        anywhere = mode == INDEX and width == 32  # any source lane of the group: any mask will do
        units = [lanes[i : i + width] for i in range(0, len(lanes), width)]
        units = [[lane] for lane in lanes] if anywhere else [u for u in units if len(u) == width]
        absent = _mask([lane for lane in range(32) if lane not in lanes])
        for group in _random_groups(rng, units):
            for lane in group:
                arg = int(rng.choice(group)) if anywhere else int(rng.integers(0, width))
                at = (step, 32 * warp + lane)
                # Lanes that do not exist may be named in a mask: nobody waits for them.
                self.masks[at] = _mask(group) | absent
                self.args[at] = arg
                self.wanted[at] = self.x[step, 32 * warp + _source(mode, lane, arg, width)]


def _source(mode: int, lane: int, arg: int, width: int) -> int:
    start = lane // width * width
    source = {INDEX: start + arg % width, UP: lane - arg, DOWN: lane + arg, XOR: lane ^ arg}[mode]
    return source if start <= source < start + width else lane


@pytest.mark.parametrize("threads", SIZES)
def test_shuffles_with_random_masks(engine: Engine, warps: Image, threads: int) -> None:
    count = 60
    steps = Steps(np.random.default_rng(threads), threads, count)
    out = engine.put(np.full((count, threads), -1, np.int32))
    inputs = (steps.x, steps.masks, steps.modes, steps.args, steps.widths)
    buffers = [engine.put(values) for values in inputs]
    fault = engine.launch(warps["shuffles"], 1, threads, out, *buffers, c_int(count))
    assert fault.code == 0, fault.text
    np.testing.assert_array_equal(out.get(), steps.wanted)
    assert threads == 1 or (steps.masks != 0).sum() > count * threads / 4


@pytest.mark.parametrize("threads", SIZES)
@pytest.mark.parametrize("seed", range(4))
def test_votes_with_random_masks_and_returned_lanes(
    engine: Engine, warps: Image, threads: int, seed: int
) -> None:
    rng = np.random.default_rng([threads, seed])
    values = rng.integers(0, 1 << 20, threads).astype(np.uint32)
    leave = (rng.random(threads) < 0.3).astype(np.int32)
    masks, wanted = np.zeros(threads, np.uint32), np.full((threads, 5), 0xFFFFFFFF, np.uint32)
    for warp in range((threads + 31) // 32):
        lanes = _lanes_of(warp, threads)
        chosen = rng.integers(0, 3, len(lanes))
        for g in range(3):
            group = [lane for lane in lanes if chosen[lane] == g]
            _expect_votes(wanted, masks, values, leave, 32 * warp, group)
    out = engine.put(np.full((threads, 5), 0xFFFFFFFF, np.uint32))
    buffers = [engine.put(values), engine.put(masks), engine.put(leave)]
    fault = engine.launch(warps["votes"], 1, threads, out, *buffers)
    assert fault.code == 0, fault.text
    np.testing.assert_array_equal(out.get(), wanted)


def _expect_votes(
    wanted: Ints, masks: Ints, values: Ints, leave: Ints, first: int, group: list[int]
) -> None:
    present = [lane for lane in group if not leave[first + lane]]
    bits = [lane for lane in present if values[first + lane] & 1]
    total = sum(int(values[first + lane]) for lane in present) & 0xFFFFFFFF
    for lane in group:
        masks[first + lane] = _mask(group)
    for lane in present:
        same = [o for o in present if values[first + o] & 3 == values[first + lane] & 3]
        row = (_mask(bits), bool(bits), len(bits) == len(present), total, _mask(same))
        wanted[first + lane] = row


@pytest.mark.parametrize("threads", SIZES)
@pytest.mark.parametrize("seed", range(3))
def test_no_lane_waits_for_lanes_that_return_later(
    engine: Engine, warps: Image, threads: int, seed: int
) -> None:
    rng = np.random.default_rng([threads, seed])
    rounds = rng.integers(0, 9, threads).astype(np.int32)
    masks, wanted = np.zeros(threads, np.uint32), np.full((9, threads), -1, np.int64)
    for warp in range((threads + 31) // 32):
        lanes = _lanes_of(warp, threads)
        chosen = rng.integers(0, 3, len(lanes))
        for lane in lanes:
            group = [other for other in lanes if chosen[other] == chosen[lane]]
            masks[32 * warp + lane] = _mask(group)
            for k in range(rounds[32 * warp + lane]):
                there = [other for other in group if rounds[32 * warp + other] > k]
                wanted[k, 32 * warp + lane] = _mask(there)
    members = engine.put(np.full((9, threads), 0xFFFFFFFF, np.uint32))
    buffers = (engine.put(masks), engine.put(rounds))
    fault = engine.launch(warps["leave_in_turn"], 1, threads, members, *buffers)
    assert fault.code == 0, fault.text
    np.testing.assert_array_equal(members.get(), (wanted & 0xFFFFFFFF).astype(np.uint32))


def test_a_return_completes_every_operation_that_it_held_up(engine: Engine, warps: Image) -> None:
    # Lane 0 waits for 1, which waits for 2 and 3, which wait for 4; lane 4 returns at once. When it
    # does, the lowest waiting lane is one whose operation cannot complete yet.
    masks = np.array([[0, 0, 28, 28, 0], [0, 14, 14, 14, 0], [3, 3, 0, 0, 0]], np.uint32)
    x = np.arange(15, dtype=np.int32).reshape(3, 5)
    own_lane, index = np.tile(np.arange(5, dtype=np.int32), (3, 1)), np.zeros(3, np.int32)
    inputs = (x, masks, index, own_lane, np.full(3, 32, np.int32))
    out = engine.put(np.full((3, 5), -1, np.int32))
    buffers = [engine.put(values) for values in inputs]
    fault = engine.launch(warps["shuffles"], 1, 5, out, *buffers, c_int(3))
    assert fault.code == 0, fault.text
    np.testing.assert_array_equal(out.get(), np.where(masks != 0, x, -1))


def test_shuffle_moves_eight_bytes(engine: Engine, warps: Image) -> None:
    doubles, longs, floats = (engine.empty(64, kind) for kind in (np.float64, np.int64, np.float32))
    assert engine.launch(warps["shuffle_wide"], 1, 64, doubles, longs, floats).code == 0
    other = np.arange(64).reshape(2, 32)[:, ::-1].ravel()
    np.testing.assert_array_equal(doubles.get(), other * 1.25)
    np.testing.assert_array_equal(longs.get(), other << 40)
    np.testing.assert_array_equal(floats.get(), (other * 0.5).astype(np.float32))


def test_halves_of_a_warp_go_their_own_ways(engine: Engine, warps: Image) -> None:
    steps = np.array([5, 0, 2, 9], np.int32)
    out = engine.empty(64, np.int32)
    fault = engine.launch(warps["halves"], 1, 64, out, engine.put(steps))
    assert fault.code == 0, fault.text
    total = np.tile(np.arange(32), 2).reshape(4, 16)
    for half, count in enumerate(steps):
        for k in range(count):
            total[half] = total[half] + total[half][np.arange(16) ^ (1 << k % 4)]
    both = total.reshape(2, 2, 16)
    np.testing.assert_array_equal(out.get(), (both + both[:, ::-1]).ravel())


@pytest.mark.parametrize("threads", (8, 32, 256))
def test_cooperative_tiles(engine: Engine, warps: Image, threads: int) -> None:
    x = np.arange(threads, dtype=np.float32)
    out = engine.empty((threads, 2))
    assert engine.launch(warps["tile_sums"], 1, threads, out, engine.put(x)).code == 0
    tiles = np.repeat(x.reshape(-1, 8).sum(1), 8)
    np.testing.assert_array_equal(out.get(), np.stack([tiles, np.full(threads, x.sum())], 1))


def test_half_precision_types(engine: Engine, warps: Image) -> None:
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal(300).astype(np.float16) for _ in range(2))
    out, narrow = engine.put(y), engine.empty(300, np.uint16)
    args = (out, narrow, engine.put(x), c_float(0.5), c_int(300))
    assert engine.launch(warps["half_precision"], 3, 128, *args).code == 0
    wanted = (np.float32(0.5) * x.astype(np.float32) + y.astype(np.float32)).astype(np.float16)
    np.testing.assert_array_equal(out.get(), wanted)
    back = (narrow.get().astype(np.uint32) << 16).view(np.float32)
    np.testing.assert_allclose(back, x.astype(np.float32), rtol=2**-8)
