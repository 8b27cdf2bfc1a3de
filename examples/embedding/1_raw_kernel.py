"""1. A raw kernel: an image compiled elsewhere, memory by address, a stream's handle; one graph.

python examples/embedding/1_raw_kernel.py [DEVICE]
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from lowgraph import GraphStep, Library, PersistentPool, open_device
from lowgraph.capture import ForeignMemory, Input
from lowgraph.cli import exit_code
from lowgraph.driver import memory
from lowgraph.driver import stream as streams

SOURCE = Path(__file__).parents[1] / "own_kernel.cu"
N = 1000


def main(spec: str = "auto") -> None:
    device = open_device(spec)
    library, pool, stream = Library(device), PersistentPool(device), streams.create()
    # Stands for a build system's .cubin or .fatbin, which `load` takes by its path.
    image = library.load(library.compiled(SOURCE))
    leaky_sum = image.kernel("leaky_sum", params="float* y, const float* x, float decay, int n")
    # Stands for an allocator of yours: addresses, sizes, and who keeps them valid.
    x, y = (
        ForeignMemory(memory.alloc(4 * N), 4 * N, owner="main", dtype=np.dtype("f4"), name=name)
        for name in ("x", "y")
    )
    memory.memset_d32_async(x.address, int(np.float32(1).view(np.uint32)), N, stream)
    memory.memset_d32_async(y.address, 0, N, stream)
    with GraphStep(
        lambda s: leaky_sum(s, 4, 256, y, x, 0.5, N),
        device=device, pool=pool, library=library, stream=stream, label="raw kernel",
        inputs=[Input("x", x), Input("y", y)],  # checked at each replay
    ) as step:  # fmt: skip
        for _ in range(10):
            step()
        print(step.report().text())
    result = np.empty(N, np.float32)
    memory.copy_dtoh_async(result.ctypes.data, y.address, 4 * N, stream)
    streams.synchronize(stream)
    assert (result == 2.0 - 2.0**-9).all()  # 1 + 1/2 + ... + 1/2^9
    memory.free(x.address)
    memory.free(y.address)


if __name__ == "__main__":
    sys.exit(exit_code(lambda: main(*sys.argv[1:2])))
