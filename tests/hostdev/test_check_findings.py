"""How `python -m lowgraph check` prints a finding whose sides stand in no source line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.hostdev.check_kit import run_check

pytestmark = pytest.mark.host

_SCRIPT = """
from lowgraph import Library, PersistentPool, open_device
from lowgraph.driver import memory
from lowgraph.driver import stream as streams

SOURCE = '''
extern "C" __global__ void leaves(float* y, int n) {
    if (threadIdx.x >= n) return;
    __syncthreads();
    y[threadIdx.x] = 1.0f;
}
'''

device = open_device("host")
pool, first, second = PersistentPool(device), streams.create(), streams.create()
sums, other = pool.take("sums", (40,)), pool.take("other", (64,))
memory.memset_d8_async(sums.address, 0, 160, first)
memory.memset_d8_async(sums.address, 1, 160, second)
streams.synchronize(first)
streams.synchronize(second)
with open("leaves.cu", "w") as file:
    file.write(SOURCE)
Library(device).kernel("leaves.cu", "leaves")(first, 1, 64, other, 40)
streams.synchronize(first)
"""


def test_a_side_without_a_line_is_told_by_what_it_is(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(_SCRIPT.replace('"leaves.cu"', f'"{tmp_path}/leaves.cu"'))
    done = run_check(tmp_path, script)
    race, barrier = done.findings
    assert race["kernel"] == race["other"]["kernel"] == "memset"
    assert (race["file"], race["block"], race["allocation"]) == (None, None, "sums")
    assert re.search(
        r"^memset, stream \d+: node-race: writes 160 bytes .*\n"
        r"    memset, stream \d+\n"
        r"    other side: memset, stream \d+\n"
        r"    memory: sums\n",
        done.out,
        re.MULTILINE,
    ), done.out + done.err
    assert (barrier["kind"], barrier["other"]["thread"]) == ("divergent-barrier", [40, 0, 0])
    assert "    other side: kernel leaves, block (0,0,0), thread (40,0,0)\n" in done.out
