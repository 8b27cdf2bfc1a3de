"""What a stage costs while nothing listens: python benchmarks/stage_cost.py. Needs no device.

CPU time of the calling thread, in microseconds, of one call less an empty one. `named` is
`with stage("forward")`, `nested` the same inside another stage, `made before` enters one object
again and again; `current()` is what a journal pays at a launch.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable

from measure import spread

from lowgraph.stages import current, stage

_CALLS = 2000
_ROUNDS = 200


def _named() -> None:
    with stage("forward"):
        pass


def _made_before(before: stage) -> Callable[[], None]:
    def act() -> None:
        with before:
            pass

    return act


def _seconds(act: Callable[[], object]) -> float:
    begin = time.thread_time()
    for _ in range(_CALLS):
        act()
    return (time.thread_time() - begin) / _CALLS


def _extra(act: Callable[[], object]) -> dict[str, float]:
    return spread([_seconds(act) - _seconds(lambda: None) for _ in range(_ROUNDS)])


def main() -> int:
    """Measure and print one JSON object."""
    rows = {"named": _named, "made before": _made_before(stage("forward")), "current()": current}
    found = {name: _extra(act) for name, act in rows.items()}
    with stage("step"):
        found["nested"] = _extra(_named)
    print(json.dumps(found, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
