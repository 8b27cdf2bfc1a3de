"""2. CuPy's operations in the window, on slices of our pool, beside a RawModule's kernel of ours.

python examples/embedding/2_cupy_window.py [DEVICE]
"""

from __future__ import annotations

import sys

import numpy as np

from lowgraph import GraphStep, Library, PersistentPool, open_device
from lowgraph.cli import exit_code
from lowgraph.driver import stream as streams
from lowgraph.interop import cupy_kernel, cupy_ops, cupy_view, slice_of
from lowgraph.memory import download, upload

N, STEPS = 1000, 10
SOURCE = """
extern "C" __global__ void leaky_sum(float* y, const float* x, float decay, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = decay * y[i] + x[i];
}
"""


def main(spec: str = "auto") -> None:
    device = open_device(spec)
    library, pool, stream = Library(device), PersistentPool(device), streams.create()
    x, y, loss = pool.take("x", N), pool.take("y", N), pool.take("loss", ())
    cx, cy, closs = cupy_view(x), cupy_view(y), cupy_view(loss)  # refuses a device that is no GPU
    import cupy

    leaky_sum = cupy_kernel(cupy.RawModule(code=SOURCE).get_function("leaky_sum"))
    upload(x, np.linspace(-1, 1, N, dtype=np.float32), stream)
    upload(y, np.zeros(N, np.float32), stream)

    def body(s: int) -> None:
        with cupy_ops(pool, s):
            gate = cupy.tanh(cx * 2.0)  # temporaries of CuPy's: slices that were primed
            leaky_sum(s, 4, 256, y, slice_of(gate, pool), 0.5, N)  # ours, on the same memory
            closs[...] = (cy * cy).sum()

    with GraphStep(body, device=device, pool=pool, library=library, stream=stream) as step:
        for _ in range(STEPS):
            step()
        print(step.report().text())
    print(f"loss {download(loss, stream)}")
    gate = np.tanh(np.linspace(-1, 1, N, dtype=np.float32).astype(float) * 2)
    wanted = ((2 - 2.0 ** (1 - STEPS)) * gate) ** 2
    np.testing.assert_allclose(download(loss, stream), wanted.sum(), rtol=1e-5)  # float32 sums


if __name__ == "__main__":
    sys.exit(exit_code(lambda: main(*sys.argv[1:2])))
