"""`import lowgraph` is light: no driver, no CuPy, no NumPy, and next to no time."""

from __future__ import annotations

import os
import subprocess
import sys

import lowgraph
from tests.packaging.tree import ROOT

IMPORT_SECONDS = 0.3  # of processor time: other processes of the machine are no matter
MEASURE = """
import sys, time
start = time.process_time()
import lowgraph
took = time.process_time() - start
heavy = sorted({name.split(".")[0] for name in sys.modules} & {"cuda", "cupy", "numpy", "nvmath"})
print(took, *heavy)
"""


def _python(code: str) -> str:
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_import_loads_nothing_heavy_and_is_quick() -> None:
    # The best of three: the first may read files from the disk.
    runs = [_python(MEASURE).split() for _ in range(3)]
    assert all(len(run) == 1 for run in runs), runs
    assert min(float(run[0]) for run in runs) < IMPORT_SECONDS


def test_every_public_name_resolves() -> None:
    for name in lowgraph.__all__:
        assert getattr(lowgraph, name) is not None


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(lowgraph, "no_such_name")


def test_errors_and_specs_need_no_bindings() -> None:
    loaded = _python("import sys, lowgraph.errors; print('cuda' in sys.modules)")
    assert loaded.strip() == "False"
