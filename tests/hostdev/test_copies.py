"""Asynchronous copies: bytes are there behind the wait and not before, in the builds that tell."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.hostdev.check_kit import CHECKS, Run, run_check, run_python
from tests.support.process import output_of

pytestmark = pytest.mark.host
SOURCE = CHECKS / "copies.cu"
X = np.arange(1.0, 257.0)
TILES = X.reshape(4, 64)
SEEDS = ("1", "2")
LATE = ("no_wait", "open_batch", "one_waits", "last_not_awaited", "one_too_few", "no_barrier",
        "started_over_readers", "returned", "source_overwritten")  # fmt: skip
"""Kernels whose results are wrong where a copy arrives at its wait."""


def _zeros() -> np.ndarray[Any, Any]:
    """What zeros_clean leaves, byte by byte."""
    tiles = np.full((64, 4), 5.0, np.float32)
    for t in range(64):
        size = 4 << t % 3
        zeros = size // 4 * (t // 3 % 2 * 2 + t // 6 % 3)
        row = tiles[t].view(np.uint8)
        row[: size - zeros] = X[4 * t : 4 * t + 4].astype(np.float32).view(np.uint8)[: size - zeros]
        row[size - zeros : size] = 0
    return tiles.reshape(-1).astype(float)


RIGHT: dict[str, Callable[[], np.ndarray[Any, Any]]] = {
    **dict.fromkeys(
        ("no_wait", "open_batch", "one_waits", "no_barrier", "source_overwritten",
         "one_tile_clean"), lambda: TILES[0, ::-1]),
    **dict.fromkeys(
        ("last_not_awaited", "one_too_few", "two_stages_clean", "three_stages_clean"),
        lambda: TILES.sum(0)[::-1]),
    "started_over_readers": lambda: TILES[:2, ::-1].reshape(-1),
    "returned": lambda: TILES[0, :31:-1],
    "own_bytes_clean": lambda: TILES[0],
    "never_used_clean": lambda: TILES[0, :40],
    "zeros_clean": _zeros,
}  # fmt: skip
CLEAN = [name for name in RIGHT if name.endswith("_clean")]


def _expected() -> dict[str, list[tuple[int, str]]]:
    """By kernel, the (line, kind) of what its comments name."""
    found: dict[str, list[tuple[int, str]]] = {}
    for number, line in enumerate(SOURCE.read_text(encoding="utf-8").splitlines(), 1):
        if begins := re.search(r'extern "C" __global__ void (\w+)\(', line):
            kernel = begins[1]
            found[kernel] = []
        if "// FINDS " in line:
            found[kernel] += [(number, kind) for kind in line.partition("// FINDS ")[2].split()]
    return found


EXPECTED = _expected()


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, dict[str, list[float]]]:
    folder = tmp_path_factory.mktemp("copies")
    run = run_check(folder, CHECKS / "copies.py", str(folder / "left.json"))
    return run, json.loads((folder / "left.json").read_text(encoding="utf-8"))


@lru_cache
def _left(folder: Path, seed: str) -> dict[str, list[float]]:
    """What the kernels leave in y, with a seed of shuffle mode or, "", without."""
    file = folder / f"left{seed}.json"
    done = run_python(str(CHECKS / "copies.py"), str(file), LOWGRAPH_HOST_SHUFFLE=seed)
    assert done.returncode == 0, done.stderr
    left: dict[str, list[float]] = json.loads(file.read_text(encoding="utf-8"))
    return left


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("left")


def _is_right(left: dict[str, list[float]], name: str) -> bool:
    want = RIGHT[name]()
    return np.array_equal(left[name][: len(want)], want)


@pytest.mark.parametrize("kernel", EXPECTED)
def test_the_checker_tells_the_line_and_nothing_of_a_clean_kernel(
    checked: tuple[Run, dict[str, list[float]]], kernel: str
) -> None:
    run, _ = checked
    found = {(f["line"], f["kind"]) for f in run.of(kernel)}
    assert found == set(EXPECTED[kernel]), run.out + run.err
    assert bool(found) != kernel.endswith("_clean")


def test_a_finding_says_what_the_copy_lacks(
    checked: tuple[Run, dict[str, list[float]]],
) -> None:
    run, _ = checked
    (early,) = run.of("no_wait")
    assert early["text"] == (
        "read of 4 bytes that an asynchronous copy is still to bring, for its thread has not waited"
        " for it: 0 bytes into 'tile'"
    )
    reader, starter = early["thread"][0], early["other"]["thread"][0]
    assert (reader, starter) == (63, 0)
    start = next(
        n for n, line in enumerate(SOURCE.read_text().splitlines(), 1) if "START(&tile[t]" in line
    )
    assert early["other"]["line"] == start
    for kernel in ("source_overwritten", "target_overwritten"):
        (late,) = run.of(kernel)
        assert "another thread of its block wrote while that was under way" in late["text"]


@pytest.mark.parametrize("name", CLEAN)
def test_clean_kernels_are_right_in_every_build(
    checked: tuple[Run, dict[str, list[float]]], folder: Path, name: str
) -> None:
    assert _is_right(checked[1], name)
    for seed in ("", *SEEDS):
        assert _is_right(_left(folder, seed), name), seed


@pytest.mark.parametrize("name", LATE)
def test_shuffle_mode_shows_a_wrong_result(folder: Path, name: str) -> None:
    assert not all(_is_right(_left(folder, seed), name) for seed in SEEDS)


def test_what_is_read_before_the_wait_is_nan(folder: Path) -> None:
    for seed in SEEDS:
        left = _left(folder, seed)
        for name in ("no_wait", "open_batch", "last_not_awaited"):
            assert np.isnan(left[name][:64]).all(), name


_REFUSED = """
from pathlib import Path
from lowgraph import Library, PersistentPool, open_device
from lowgraph.driver import stream as streams
from lowgraph.errors import DriverError
device = open_device("host")
pool, stream = PersistentPool(device), streams.create()
y = pool.take("y", (64,))
source = Path({source!r})
Library(device).kernel(source, "k")(stream, 1, 1, y)
try:
    streams.synchronize(stream)
except DriverError as error:
    print(error)
"""
BAD = {
    "__pipeline_memcpy_async(room + 1, y, 16);": (
        "716", "an address of an asynchronous copy is no multiple of its bytes"),
    "__pipeline_memcpy_async(room, y + 1, 8);": (
        "716", "an address of an asynchronous copy is no multiple of its bytes"),
    "__pipeline_memcpy_async(room, y, 12);": (
        "719", "an asynchronous copy is one of 4, 8 or 16 bytes, zeros included"),
    "__pipeline_memcpy_async(room, y, 4, 8);": (
        "719", "an asynchronous copy is one of 4, 8 or 16 bytes, zeros included"),
    "__pipeline_memcpy_async(room, y + (1 << 30), 4);": ("700", "illegal read at"),
}  # fmt: skip


@pytest.mark.parametrize("shuffle", ["", "1"])
@pytest.mark.parametrize("call", BAD)
def test_a_copy_that_a_gpu_refuses_ends_the_launch(tmp_path: Path, call: str, shuffle: str) -> None:
    source = tmp_path / "k.cu"
    source.write_text(
        "#include <cuda_pipeline_primitives.h>\n"
        'extern "C" __global__ void k(float* y) {\n'
        "    __shared__ __align__(16) float room[8];\n"
        f"    {call}\n"
        "    __pipeline_commit();\n    __pipeline_wait_prior(0);\n    y[0] = room[0];\n}\n"
    )
    told = output_of(_REFUSED.format(source=str(source)), {"LOWGRAPH_HOST_SHUFFLE": shuffle})
    code, text = BAD[call]
    assert code in told
    assert text in told
    assert "k.cu:4" in told
