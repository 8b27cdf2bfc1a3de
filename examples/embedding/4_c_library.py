"""4. A C library in the window: its launches are nodes of our graph, its mistakes are explained.

python examples/embedding/4_c_library.py [DEVICE]
"""

from __future__ import annotations

import ctypes
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from lowgraph import CFunction, GraphStep, Library, PersistentPool, Slice, open_device
from lowgraph.cli import exit_code, include
from lowgraph.debug import Audit
from lowgraph.driver import stream as streams
from lowgraph.memory import download, upload

HERE = Path(__file__).parent
PARAMS = "CUstream stream, float* y, float* x, float decay, int n"


def build(folder: str) -> ctypes.CDLL:
    source, built = HERE / "4_c_library.c", f"{folder}/libleaky.so"
    subprocess.run(["cc", "-shared", "-fPIC", source, *include.flags(), "-o", built], check=True)
    return ctypes.CDLL(built)


def main(spec: str = "auto") -> None:
    device = open_device(spec)
    library, pool, stream = Library(device), PersistentPool(device), streams.create()
    with tempfile.TemporaryDirectory() as folder:
        leaky = build(folder)
    assert leaky.leaky_load(library.compiled(HERE.parent / "own_kernel.cu")) == 0

    def run(name: str, x: Slice, y: Slice) -> None:
        enqueue = CFunction(leaky, f"int {name}({PARAMS})")
        with GraphStep(lambda s: enqueue(s, y, x, 0.5, 1000), device=device, pool=pool,
                       library=library, stream=stream, label=name) as step:  # fmt: skip
            for _ in range(3):
                step()
            print(step.report().text())
            if step.graph is not None:
                print(*Audit.of(step).report().lines(), sep="\n")

    for name in ("leaky_pair", "leaky_astray", "leaky_waits"):
        x, y = pool.take("x", 1000), pool.take("y", 1000)
        upload(x, np.ones(1000, np.float32), stream)
        upload(y, np.zeros(1000, np.float32), stream)
        run(name, x, y)
        if name != "leaky_astray":  # which ran in its windows, too
            assert (download(x, stream) == 5.125).all()  # after 1.5 and 2.75


if __name__ == "__main__":
    sys.exit(exit_code(lambda: main(*sys.argv[1:2])))
