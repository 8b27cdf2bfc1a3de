"""6. A capture that somebody else began: our kernels join it, and their graph is looked into.

python examples/embedding/6_foreign_capture.py [DEVICE]
"""

import sys
from pathlib import Path

import numpy as np
from cuda.bindings import driver as cu

from lowgraph import Library, PersistentPool, debug, open_device
from lowgraph.capture import GraphPart
from lowgraph.cli import exit_code
from lowgraph.driver import stream as streams
from lowgraph.memory import download, upload

SOURCE = Path(__file__).parents[1] / "own_kernel.cu"
N = 1000


def checked(answer: tuple) -> object:
    assert int(answer[0]) == 0, answer[0]
    return answer[-1]


def main(spec: str = "auto") -> None:
    device = open_device(spec)
    library, pool, stream = Library(device), PersistentPool(device), streams.create()
    leaky_sum = library.kernel(SOURCE, "leaky_sum")
    x, y, z = (pool.take(name, N) for name in "xyz")
    for piece in (x, y, z):
        upload(piece, np.ones(N, np.float32), stream)

    def body(s: int) -> None:
        leaky_sum(s, 4, 256, y, x, 0.5, N)

    part = GraphPart(body, device=device, pool=pool, library=library)
    part.prime(stream)  # a real run, before their capture: kernels loaded, memory there

    # Theirs, here by bare calls; streams of PyTorch and cuda.core `record` takes as they are.
    checked(cu.cuStreamBeginCapture(stream, cu.CUstreamCaptureMode(0)))
    checked(cu.cuMemsetD32Async(z.address, 0, N, stream))
    print("joined:", part.record(stream).text())  # our launches are nodes of their graph now
    graph = checked(cu.cuStreamEndCapture(stream))
    executable = checked(cu.cuGraphInstantiate(graph, 0))
    for _ in range(9):
        checked(cu.cuGraphLaunch(executable, stream))

    assert np.all(download(y, stream) == 2 - 2.0**-10) and not np.any(download(z, stream))
    print(*debug.lines(debug.read_handle(int(graph), label="theirs", pool=pool)), sep="\n")
    pool.give_back(x)
    print(*debug.Audit.of_handle(int(graph), pool).check())  # their graph still reads x
    checked(cu.cuGraphExecDestroy(executable))
    part.close()  # not before their last launch is done


if __name__ == "__main__":
    sys.exit(exit_code(lambda: main(*sys.argv[1:2])))
