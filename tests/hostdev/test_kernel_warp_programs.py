"""Random programs of warp operations: the device against a model that runs lanes as a set."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.hostdev.warp_model import Warp
from tests.hostdev.warp_programs import Generator
from tests.hostdev.warp_source import source_of
from tests.support.rig import Rig

pytestmark = pytest.mark.both
FILES, PROGRAMS = 4, 50  # 200 programs; few files, since each costs a compiler's start
SIZES = (1, 31, 33, 77)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("programs")


def _expected(program: Any, values: Any) -> Any:
    """What each thread must leave, [n, 2], warp by warp."""
    left: list[tuple[int, int]] = []
    for first in range(0, len(values), 32):
        x, y = values[first : first + 32].T.tolist()
        left += Warp(x, y).run(program)
    return np.array(left, np.uint32)


@pytest.mark.parametrize("seed", range(FILES))
def test_random_programs(rig: Rig, folder: Path, seed: int) -> None:
    generator = Generator(np.random.default_rng(seed))
    programs = [generator.program() for _ in range(PROGRAMS)]
    path = folder / f"programs_{seed}.cu"
    path.write_text(source_of(programs))
    rng = np.random.default_rng([seed, 1])
    for i, program in enumerate(programs):
        kernel = rig.library.kernel(path, f"program_{i}")
        for n in SIZES:
            values = rng.integers(0, 1 << 32, (n, 2)).astype(np.uint32)
            out = rig.empty((n, 2), np.uint32)
            kernel(rig.stream, 1, n, out, rig.put(values), n)
            np.testing.assert_array_equal(
                rig.get(out), _expected(program, values), f"{path} {kernel.name}, {n} threads"
            )


def test_programs_are_not_trivial() -> None:
    generator = Generator(np.random.default_rng(0))
    text = source_of([generator.program() for _ in range(PROGRAMS)])
    body = text[text.index("program_0") :]
    for word in ("for (", "} else {", "return;", "__shfl_up_sync", "__ballot_sync", "call_memory"):
        assert body.count(word) >= 5, word
