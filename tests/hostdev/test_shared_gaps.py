"""Writes beside static shared memory in the plain build: which variable, which side, how far."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hostdev.check_kit import run_python

pytestmark = pytest.mark.host

# One thread of the second block writes a byte at `at` of a variable: inside, behind or before it.
KERNELS = """\
__device__ int helped(int which, int at, int n) {
    __shared__ int inside[5];
    inside[threadIdx.x % 5] = n;
    if (which == 3 && threadIdx.x == 3 && blockIdx.x == 1) ((char*)inside)[at] = 7;
    __syncthreads();
    return inside[4] - n;
}
extern "C" __global__ void beside(int* y, int which, int at, int n) {
    __shared__ float words[33];
    __shared__ char bytes[257];
    __shared__ double one;
    int t = threadIdx.x;
    words[t] = n;
    bytes[t] = 1;
    one = 0;
    __syncthreads();
    void* begins[] = {words, bytes, &one};
    if (which < 3 && t == 3 && blockIdx.x == 1) ((char*)begins[which])[at] = 7;
    __syncthreads();
    y[blockIdx.x * 33 + t] = words[t] + bytes[t] + one + helped(which, at, n);
}
extern "C" __global__ void another(int* y, int n) {
    __shared__ int more[63];
    more[threadIdx.x] = n;
    __syncthreads();
    y[threadIdx.x] = more[threadIdx.x] + 1;
}
"""
RUN = """\
import sys
from pathlib import Path
import numpy as np
from lowgraph import Library, PersistentPool, open_device
from lowgraph.driver import stream
from lowgraph.memory import download, upload
device = open_device("host")
library, pool, s = Library(device), PersistentPool(device), stream.create()
y = pool.take("y", 66, np.int32)
upload(y, np.full(66, -7, np.int32), s)
source = Path(sys.argv[1])
library.kernel(source, "another")(s, 1, 33, y, 40)
beside = library.kernel(source, "beside")
beside(s, 2, 33, y, *map(int, sys.argv[2:]), 40)
stream.synchronize(s)
print(download(y, s).tolist())
"""
SIZES = {"words": 4 * 33, "bytes": 257, "one": 8, "inside": 20}
BESIDE = {"just past the end of": (0, 1), "31 bytes past the end of": (31, 1),
          "255 bytes past the end of": (255, 1), "just before": (-1, 0),
          "16 bytes before": (-17, 0)}  # fmt: skip


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("gaps") / "beside.cu"
    path.write_text(KERNELS)
    return path


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize("says", BESIDE)
def test_a_write_beside_a_variable_names_it(source: Path, name: str, says: str) -> None:
    """Far behind, the next variable may be the nearer one: both sides are right there."""
    extra, sizes = BESIDE[says]
    at = sizes * SIZES[name] + extra
    done = run_python("-c", RUN, str(source), str([*SIZES].index(name)), str(at))
    assert done.returncode == 1, done.stdout
    assert "700 CUDA_ERROR_ILLEGAL_ADDRESS: kernel 'beside', block (1,0,0)" in done.stderr
    (told,) = (line for line in done.stderr.splitlines() if line.startswith("lowgraph.errors"))
    near = f"some thread of this block wrote {says} __shared__ '{name}'"
    assert near in told or (extra == 255 and " before __shared__ '" in told), told


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize("last", [False, True])
def test_a_write_inside_is_none_beside(source: Path, name: str, last: bool) -> None:
    at = SIZES[name] - 1 if last else 0
    done = run_python("-c", RUN, str(source), str([*SIZES].index(name)), str(at))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("[41, 41, ")
