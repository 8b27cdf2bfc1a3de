"""The child's side of a benchmark: one process, one or more arms, driven over pipes.

A request is a JSON object on a line of stdin, an answer one on stdout: {"ok": ...}, or
{"error": text}, after which the process goes on. What libraries print goes to stderr.

    {"do": "open", "spec": {...}}                    facts of each arm, by name
    {"do": "burst", "who": name, "steps": k}         {"wall_us", "host_us"}, of one step
    {"do": "trace", "who": name, "steps": k}         {"busy_us", "device_ops"}, of one step
    {"do": "close"}                                  the process ends
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any, Protocol

__all__ = ["Arm", "serve"]


class Arm(Protocol):
    """One way to do the work, warm and ready."""

    def facts(self) -> dict[str, Any]:
        """What is known before timing: losses, nodes, memory, `includes`."""

    def burst(self, steps: int) -> dict[str, float]:
        """Run steps and wait; microseconds of a step by events (wall) and of its enqueueing."""

    def trace(self, steps: int) -> dict[str, Any]:
        """Run steps under a tracer; microseconds of a step in which the device worked."""


def serve(open_arms: Callable[[Mapping[str, Any]], Mapping[str, Arm]]) -> int:
    """Answer requests until the pipe closes; returns the exit code."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    arms: Mapping[str, Arm] = {}
    for line in sys.stdin:
        request = json.loads(line)
        if request["do"] == "close":
            break
        try:
            if request["do"] == "open":
                arms = open_arms(request["spec"])
            answer = {"ok": _answer(arms, request)}
        except Exception as error:  # any library's: the parent shows it in the arm's row
            answer = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
    return 0


def _answer(arms: Mapping[str, Arm], request: Mapping[str, Any]) -> Any:
    if request["do"] == "open":
        return {name: arm.facts() for name, arm in arms.items()}
    act = getattr(arms[request["who"]], request["do"])
    return act(request["steps"])
