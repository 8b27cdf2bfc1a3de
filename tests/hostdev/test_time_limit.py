"""Time limits of kernels, which are processor time, and of waits for a word that nobody stores."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.process import ROOT, output_of

pytestmark = pytest.mark.host

LIMIT = 1.0  # seconds
SHORT = 0.3
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


def _stopped(command: list[str], check: str) -> str:
    """What a process prints that stops itself, and goes on when its limit has passed."""
    variables = {"LOWGRAPH_HOST_KERNEL_SECONDS": str(LIMIT), "LOWGRAPH_HOST_CHECK": check}
    with subprocess.Popen(
        command,
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
    assert process.returncode == 0, err
    return out


@pytest.mark.parametrize("check", ["0", "1"])
def test_a_process_that_is_stopped_meanwhile_goes_on(check: str) -> None:
    assert _stopped([sys.executable, "-c", STOPPED, str(KERNELS)], check) == "ended 1\n"


WORDS = """
import ctypes, os, signal, sys, time
from cuda.bindings import driver as cu
from lowgraph import open_device
from lowgraph.driver import entry, gate, graph, memory, stream as streams
from lowgraph.errors import ContextPoisoned
from lowgraph.hostdev import check

open_device("host")
stream, other = streams.create(), streams.create()
words = memory.host_alloc(64)
ctypes.memset(words, 0, 64)
value = ctypes.c_uint32.from_address(words + 8)

def wait(stream, word=8, wanted=5):
    gate.call(cu.cuStreamWaitValue32, stream, words + word, wanted, 0)

def write(stream, word=8, wanted=5):
    gate.call(cu.cuStreamWriteValue32, stream, words + word, wanted, 0)

def recorded(record):
    streams.begin_capture(stream)
    record()
    return graph.instantiate(streams.end_capture(stream))

def synchronize():
    try:
        gate.call(cu.cuCtxSynchronize)
        print("done", value.value)
    except ContextPoisoned as error:
        print(error.code, error)
    for found in check.findings():
        print(found.kind, found.site.kernel, found.text)
"""
TEXT = (
    r"a wait for the word 8 bytes into the pinned host allocation \(64 bytes at 0x[0-9a-f]+\) to "
    r"be at least 5 was ended here: it is 0, and for 0\.3 s the device had nothing else to do "
    r"\(LOWGRAPH_HOST_KERNEL_SECONDS\)"
)


def _run(code: str, check: bool, shuffled: str = "") -> str:
    variables = {
        "LOWGRAPH_HOST_KERNEL_SECONDS": str(SHORT),
        "LOWGRAPH_HOST_CHECK": str(int(check)),
        "LOWGRAPH_HOST_SHUFFLE": shuffled,
    }
    return output_of(WORDS + code, variables, timeout=60)


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize("shuffled", ["", "7"])
def test_a_wait_that_nothing_ends_is_a_fault_that_names_it(recorded: bool, shuffled: str) -> None:
    """The process hung, and a Ctrl-C waited with it."""
    way = "graph.launch(recorded(lambda: wait(stream)), stream)" if recorded else "wait(stream)"
    told = _run(f"{way}\nsynchronize()\nprint(hex(stream))", False, shuffled)
    stream = told.splitlines()[-1]
    node = "node 0 of a graph: " if recorded else ""
    assert re.match(f"702 .*stream {stream}: {node}{TEXT}", told), told


def test_while_checking_it_is_a_finding_and_the_stream_goes_on() -> None:
    told = _run("wait(stream); write(stream, 8, 9); synchronize()", check=True)
    assert re.fullmatch(f"done 9\nendless-wait wait stream 0x[0-9a-f]+: {TEXT}\n", told), told


@pytest.mark.parametrize("edge", [False, True])
def test_a_later_node_that_would_store_the_word_is_named(edge: bool) -> None:
    """The check build runs a launch's nodes in one order, and hung where the wait was first."""
    code = f"""
from lowgraph.driver import event
def record():
    fork, join = event.create(), event.create()
    event.record(fork, stream)
    streams.wait_event(other, fork)
    wait(stream)
    write(stream if {edge} else other)
    event.record(join, other)
    streams.wait_event(stream, join)
graph.launch(recorded(record), stream)
synchronize()
"""
    told = _run(code, check=True)
    why = (
        "; node 1 writes it, and comes behind this one: put it in front"
        if edge
        else "; node 1 writes it, and the check build runs the nodes of a launch in one order, in "
        "which that one is later: give it an edge to this one, or make it first"
    )
    found = f"endless-wait wait stream 0x[0-9a-f]+: node 0 of a graph: {TEXT}{why}"
    assert re.fullmatch(f"done 5\n{found}\n", told), told
    if not edge:
        assert _run(code, check=False) == "done 5\n"


@pytest.mark.parametrize("check", [False, True])
def test_a_wait_lasts_while_the_device_has_other_work(check: bool) -> None:
    """Three times the limit: a host function that sleeps, and then the word is stored."""
    code = f"""
called = entry.HOST_FUNCTION(lambda data: time.sleep({3 * SHORT}))
wait(stream)
entry.launch_host_function(other, ctypes.cast(called, ctypes.c_void_p).value)
write(other)
synchronize()
"""
    assert _run(code, check) == "done 5\n"


def test_waits_are_ended_one_at_a_time_while_checking() -> None:
    """The first one lets the others go: they get their time anew."""
    code = "wait(stream); write(stream, 16); wait(other, 16); write(other, 24); synchronize()"
    told = _run(code, check=True)
    assert told.startswith("done 0\n") and told.count("endless-wait") == 1, told


@pytest.mark.parametrize("check", ["0", "1"])
def test_a_process_that_is_stopped_meanwhile_has_not_waited(check: str) -> None:
    code = """
wait(stream)
time.sleep(0.05)  # it is waited for by now
os.kill(os.getpid(), signal.SIGSTOP)
time.sleep(0.05)  # and has been looked at several times
value.value = 5
synchronize()
"""
    assert _stopped([sys.executable, "-c", WORDS + code], check) == "done 5\n"


def test_ctrl_c_is_seen_once_the_wait_has_ended() -> None:
    code = """
import threading
threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
wait(stream)
try:
    synchronize()
except KeyboardInterrupt:
    print("interrupted")
"""
    assert _run(code, check=False).endswith("interrupted\n")
