"""`import lowgraph` is light: no driver, no CuPy, no NumPy, and next to no time."""

from __future__ import annotations

import os
import subprocess
import sys

import lowgraph
from tests.packaging.tree import ROOT

IMPORT_SECONDS = 0.3  # of processor time: other processes of the machine are no matter
HEAVY = {"cuda", "cupy", "numpy", "nvmath"}
# What the import adds: a .pth file of site-packages may have loaded some at Python's start already,
# as that of cuda-bindings 12.9 loads `cuda`.
MEASURE = """
import sys, time
before = set(sys.modules)
start = time.process_time()
import {module}
took = time.process_time() - start
print(took, *sorted(set(sys.modules) - before))
"""


def _import(module: str) -> tuple[float, set[str]]:
    """Seconds of processor time, and which of the heavy packages it loads modules of."""
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", MEASURE.format(module=module)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    took, *loaded = done.stdout.split()
    return float(took), {name.split(".")[0] for name in loaded} & HEAVY


def test_import_loads_nothing_heavy_and_is_quick() -> None:
    # The best of three: the first may read files from the disk.
    runs = [_import("lowgraph") for _ in range(3)]
    assert all(not heavy for _, heavy in runs), runs
    assert min(seconds for seconds, _ in runs) < IMPORT_SECONDS


def test_the_measure_sees_what_an_import_loads() -> None:
    assert {"cuda", "numpy"} <= _import("lowgraph.kernels")[1]


def test_every_public_name_resolves() -> None:
    for name in lowgraph.__all__:
        assert getattr(lowgraph, name) is not None


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(lowgraph, "no_such_name")


def test_errors_and_specs_need_no_bindings() -> None:
    for module in ("lowgraph.errors", "lowgraph.specs", "lowgraph.integers"):
        assert "cuda" not in _import(module)[1], module
