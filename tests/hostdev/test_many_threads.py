"""As many threads as a large machine has cores: what each takes of the system has to be there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.process import output_of

pytestmark = pytest.mark.host

KERNEL = Path(__file__).parent / "kernels" / "barrier_rounds.cu"
# Every thread of a block has a stack of its own; the system's default is 65530 mappings a process.
SHARED = """
import sys
from pathlib import Path
import numpy as np
from lowgraph import Library, PersistentPool, open_device
from lowgraph.driver import memory, stream as streams
from lowgraph.hostdev import control
from lowgraph.memory import download

device = open_device("host")
control.set_workers(48)
library, pool, stream = Library(device), PersistentPool(device), streams.create()
rounds = library.kernel(Path({path!r}), "barrier_rounds")
out = pool.take("out", (400, {threads}), np.int32)
for turn in range(3):
    memory.memset_d8_async(out.address, 0xFF, out.nbytes, stream)
    rounds(stream, 400, {threads}, out, 20)
    assert (download(out, stream) == 20).all()
print("ran")
"""


@pytest.mark.parametrize("threads", [33, 1024])
def test_a_launch_that_more_threads_share_than_have_guarded_stacks(threads: int) -> None:
    """From 31 threads on the process ended, for want of mappings."""
    assert output_of(SHARED.format(path=str(KERNEL), threads=threads), timeout=120) == "ran\n"
