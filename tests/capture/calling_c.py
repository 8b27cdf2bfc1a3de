"""A C library's functions in steps over a pool of two arrays: for the tests of CFunction."""

from __future__ import annotations

import ctypes
import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

from lowgraph import driver
from lowgraph.capture import CFunction, GraphStep
from lowgraph.cli.include import flags
from lowgraph.memory import PersistentPool, upload
from tests.foreign.programs import c_compiler
from tests.support.process import ROOT
from tests.support.rig import Rig

SOURCE = Path(__file__).parent / "c_function.c"
KERNELS = ROOT / "examples" / "own_kernel.cu"
PARAMS = "CUstream stream, float* y, const float* x, float decay, int n"
N = 1000


def build(folder: Path, *more: str) -> ctypes.CDLL:
    target = folder / "library.so"
    command = [
        c_compiler(), "-std=gnu99", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-pthread",
        *more,
        str(SOURCE), *flags(), "-o", str(target),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stderr
    return ctypes.CDLL(str(target))


def is_counted(rig: Rig) -> bool:
    """Whether driver calls below us can be counted: on a GPU CUPTI does it."""
    with rig.device.count_calls() as count:
        pass
    return bool(count.counted_by)


class Two:
    """x and y in a pool, and steps whose body calls one C function."""

    def __init__(self, rig: Rig, library: ctypes.CDLL) -> None:
        self.rig, self.library = rig, library
        self.pool = PersistentPool(rig.device)
        self.x, self.y = self.pool.take("x", N), self.pool.take("y", N)
        upload(self.x, np.ones(N, np.float32), rig.stream)
        upload(self.y, np.zeros(N, np.float32), rig.stream)
        self.said: list[str] = []
        self.steps: list[GraphStep] = []
        self.decay: Any = lambda: 0.5

    def function(self, name: str, result: str = "int") -> CFunction:
        return CFunction(self.library, f"{result} {name}({PARAMS})")

    def step(self, name: str, **options: Any) -> GraphStep:
        call = self.function(name)
        made = GraphStep(
            options.pop("body", lambda s: call(s, self.y, self.x, self.decay(), N)),
            device=self.rig.device, pool=self.pool, library=self.rig.library,
            stream=self.rig.stream, say=self.said.append, **options,
        )  # fmt: skip
        self.steps.append(made)
        return made

    def refused(self, name: str, **options: Any) -> str:
        """What is said of a step that calls it, which goes on without a graph."""
        step = self.step(name, **options)
        for _ in range(2):
            step()
        assert step.report().refusals == 1 and step.report().eager_steps == 2
        (said,) = self.said
        assert re.search(r"(test_c_\w+|calling_c)\.py:", said), "the place in Python"
        assert driver.stream.capture_status(self.rig.stream) == "none"
        return said

    def close(self) -> None:
        for step in self.steps:
            step.close()
        self.pool.close()
