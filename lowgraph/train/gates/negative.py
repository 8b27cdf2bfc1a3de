"""The negative gate: without pin and check a graph whose parameters move must go wrong.

A gate that only ever sees right runs proves little: this one takes the protection away and wants to
see the damage, in a process of its own; then it gives check and pin back and wants to see the first
name the pointer and the second make the run right.
"""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Sequence

from lowgraph.driver import Device
from lowgraph.errors import LowgraphError
from lowgraph.train.datasets import Dataset
from lowgraph.train.gates.foreign import Protected, Unprotected
from lowgraph.train.gates.outcome import Gate
from lowgraph.train.plan import Plan

__all__ = ["negative"]

_COMMAND = (sys.executable, "-m", "lowgraph.train.gates.foreign")
_FEWEST_STEPS = 4  # the second is recorded, the third is the first to read the stale buffer
_TIMEOUT_S = 1800


def negative(
    device: Device, plan: Plan, data: Dataset, steps: int, command: Sequence[str] = _COMMAND
) -> Gate:
    """Run the experiment of `foreign` in its own process. figure: parameters that came out wrong.

    It passes when the run with neither pin nor check diverges or dies, the check names the stale
    pointer, and the pin makes the run right.
    """
    ran = max(steps, _FEWEST_STEPS)
    guarded, bare = _observe(device, plan, data, ran, command)
    passed = bare.outcome in ("diverged", "died") and bool(guarded.named) and not guarded.wrong
    pinned = "it is the eager one" if not guarded.wrong else f"{guarded.wrong} parameters are wrong"
    longer = f"over {ran} steps, the fewest that show it: " if ran > steps else ""
    detail = (
        f"{longer}without a pin the run {_SAID[bare.outcome]}: {bare.detail}; the check said: "
        f"{guarded.named or 'nothing'}; with the pin {pinned}"
    )
    return Gate("negative", passed, bare.wrong, detail)


_SAID = {"diverged": "diverged", "died": "died", "same": "did not go wrong"}


def _observe(
    device: Device, plan: Plan, data: Dataset, steps: int, command: Sequence[str]
) -> tuple[Protected, Unprotected]:
    """The child's findings; "died" when it ended without the second one."""
    done = _run(command, pickle.dumps((device.spec, plan, data, steps)))
    lines = done.stdout.splitlines()
    if done.returncode > 0 or not lines:
        raise LowgraphError(f"the run without a pin could not be made: {_end(done)}")
    guarded = Protected(**json.loads(lines[0]))
    if done.returncode < 0:
        return guarded, Unprotected("died", 0, _end(done))
    return guarded, Unprotected(**json.loads(lines[1]))


def _run(command: Sequence[str], given: bytes) -> subprocess.CompletedProcess[bytes]:
    # The child imports what this process imports, wherever that lies.
    path = os.pathsep.join(entry for entry in sys.path if entry)
    try:
        return subprocess.run(
            command,
            input=given,
            capture_output=True,
            env={**os.environ, "PYTHONPATH": path},
            timeout=_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise LowgraphError(f"the run without a pin gave no answer in {_TIMEOUT_S} s") from None


def _end(done: subprocess.CompletedProcess[bytes]) -> str:
    """How the child ended, for people."""
    if done.returncode < 0:
        return f"its process was ended by {signal.Signals(-done.returncode).name}"
    return "".join(done.stderr.decode(errors="replace").strip().splitlines()[-1:])
