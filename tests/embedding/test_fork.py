"""A fork of a process that has opened a device is refused by name, and does not hang."""

from __future__ import annotations

import pickle

import pytest

from lowgraph.errors import ForkedProcess, LowgraphError
from tests.support.process import output_of

pytestmark = pytest.mark.host

SETUP = """
import multiprocessing, os, sys, threading, warnings
import numpy as np
from pathlib import Path
from lowgraph import GraphStep, Library, PersistentPool, open_device
from lowgraph.driver import captures, current, event, forked, stream as streams
from lowgraph.errors import ForkedProcess
from lowgraph.memory import download, fill_zero

# Python 3.12 warns of forks beside threads; what becomes of them is what is tested here.
warnings.filterwarnings("ignore", ".*fork", DeprecationWarning)

def child_of(act):
    # Runs `act` in a forked child; returns its exit code, -9 if it had to be killed.
    pid = os.fork()
    if pid == 0:
        act()
        sys.stdout.flush()
        os._exit(0)
    timer = threading.Timer(20, os.kill, (pid, 9))
    timer.start()
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    timer.cancel()
    return status

def use():
    device = open_device("host")
    library, pool, stream = Library(device), PersistentPool(device), streams.create()
    kernel = library.kernel(Path("examples/own_kernel.cu"), "leaky_sum")
    x, y = pool.take("x", (256,)), pool.take("y", (256,))
    fill_zero(x, stream), fill_zero(y, stream)
    step = GraphStep(lambda s: kernel(s, 1, 256, y, x, 0.5, 256), device=device, pool=pool,
                     library=library, stream=stream)
    for _ in range(3):
        step()
    return pool, stream, kernel, x, y, step
"""

CALLS = """
pool, stream, kernel, x, y, step = use()
free = pool.take("free", (256,)); pool.give_back(free)
calls = {
    "step": step, "replay": step.replay, "close": step.close, "recapture": step.recapture,
    "open_device": lambda: open_device("host"), "current": current, "stats": pool.stats,
    "take": lambda: pool.take("z", (256,)), "kernel": lambda: kernel(stream, 1, 1, y, x, 0.5, 1),
    "stream": streams.create, "event": event.create, "download": lambda: download(y, stream),
    "lock": captures.LOCK.acquire, "pool": pool.close,
}
parent = os.getpid()

def act():
    for name, call in calls.items():
        try:
            call()
        except ForkedProcess as error:
            assert f"forked from process {parent} after that had opened the device" in str(error)
            assert "'spawn' or 'forkserver'" in str(error)
            print("refused", name)

print("exit", child_of(act))
step()
print("parent", step.report().replays)
"""


def test_every_first_call_of_a_child_is_refused() -> None:
    lines = output_of(SETUP + CALLS, timeout=100).splitlines()
    refused = [line.split()[1] for line in lines if line.startswith("refused")]
    assert refused == ["step", "replay", "close", "recapture", "open_device", "current", "stats",
                       "take", "kernel", "stream", "event", "download", "lock", "pool"]  # fmt: skip
    assert lines[-2:] == ["exit 0", "parent 3"]


LOCKED = """
pool, stream, kernel, x, y, step = use()
held, done = threading.Event(), threading.Event()

def hold():
    # A thread in the middle of everything when the process forks.
    with captures.LOCK, kernel._lock, pool._lock._own:
        held.set()
        done.wait(60)

thread = threading.Thread(target=hold)
thread.start()
held.wait()

def act():
    for call in (step, lambda: pool.take("z", (256,)), lambda: kernel(stream, 1, 1, y, x, 0.5, 1)):
        try:
            call()
        except ForkedProcess:
            print("refused")

print("exit", child_of(act))
done.set()
thread.join()
"""


def test_a_lock_of_another_thread_does_not_hang_the_child() -> None:
    assert output_of(SETUP + LOCKED, timeout=100).split("\n")[:4] == ["refused"] * 3 + ["exit 0"]


EXITS = """
pool, stream, kernel, x, y, step = use()
pid = os.fork()
if pid == 0:
    sys.exit(7)  # all that Python and the C library do at an exit
timer = threading.Timer(20, os.kill, (pid, 9))
timer.start()
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
timer.cancel()
worker = multiprocessing.get_context("fork").Process(target=print, args=("worker",), daemon=True)
worker.start()
worker.join(20)
print(worker.exitcode)
"""


def test_a_child_that_uses_nothing_ends_as_it_likes() -> None:
    lines = output_of(SETUP + EXITS, timeout=100).split()
    assert sorted(lines) == ["0", "7", "worker"]


EARLY = """
def act():
    use()
    print("used")

print("exit", child_of(act))
use()
print(child_of(lambda: None))
"""


def test_a_fork_before_any_device_is_free_to_open_one() -> None:
    assert output_of(SETUP + EARLY, timeout=100).split("\n")[:2] == ["used", "exit 0"]


GRANDCHILD = """
use()
parent = os.getpid()

def refused(generation):
    try:
        open_device("host")
    except ForkedProcess as error:
        print(generation, f"forked from process {parent} " in str(error))

def act():
    print("grandchild exit", child_of(lambda: refused(2)))
    refused(1)

print("exit", child_of(act))
"""


def test_a_grandchild_is_told_of_the_process_with_the_device() -> None:
    lines = output_of(SETUP + GRANDCHILD, timeout=100).splitlines()
    assert lines == ["2 True", "grandchild exit 0", "1 True", "exit 0"]


def test_the_error_crosses_a_process_border() -> None:
    error = ForkedProcess("text")
    assert str(pickle.loads(pickle.dumps(error))) == "text"
    assert isinstance(error, LowgraphError)
