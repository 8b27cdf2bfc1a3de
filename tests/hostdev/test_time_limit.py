"""A kernel's time limit is processor time: a process that stands still has used none of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.process import ROOT

pytestmark = pytest.mark.host

LIMIT = 1.0  # seconds
KERNELS = Path(__file__).parent / "kernels" / "patience.cu"
STOPPED = """
import os, signal, sys, time
from pathlib import Path
import numpy as np
from lowgraph import Library, PersistentPool, open_device
from lowgraph.driver import stream as streams

device = open_device("host")
library, pool, stream = Library(device), PersistentPool(device), streams.create()
flags = pool.staging.slot("flags", (3,), np.int32)
flags.write(0)
library.kernel(Path(sys.argv[1]), "waits_for_the_host")(stream, 1, 1, flags.device_address)
while not flags.array[0]:
    time.sleep(0.001)
os.kill(os.getpid(), signal.SIGSTOP)
time.sleep(0.05)  # the watchdog has looked several times
flags.array[1] = 1
streams.synchronize(stream)
print("ended", flags.array[2])
"""


@pytest.mark.parametrize("check", ["0", "1"])
def test_a_process_that_is_stopped_meanwhile_goes_on(check: str) -> None:
    variables = {"LOWGRAPH_HOST_KERNEL_SECONDS": str(LIMIT), "LOWGRAPH_HOST_CHECK": check}
    with subprocess.Popen(
        [sys.executable, "-c", STOPPED, str(KERNELS)],
        env={**os.environ, "PYTHONPATH": str(ROOT), **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status), process.communicate()
        time.sleep(LIMIT + 0.2)
        process.send_signal(signal.SIGCONT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, "ended 1\n"), err
