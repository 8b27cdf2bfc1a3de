"""Arms in processes: errors, deaths and silence end in one error with what is known."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lowgraph.bench.process import ArmFailed, ArmProcess

Start = Callable[[str], ArmProcess]

SERVED = """
import sys
from lowgraph.bench.serve import serve
class Arm:
    def facts(self): print("noise"); return {"nodes": 3}
    def burst(self, steps): return {"wall_us": 2.0 * steps, "host_us": 1.0}
    def trace(self, steps): raise ValueError("no tracer")
sys.exit(serve(lambda spec: {spec["name"]: Arm()}))
"""


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    made: list[ArmProcess] = []

    def run(program: str) -> ArmProcess:
        file = tmp_path / f"program{len(made)}.py"
        file.write_text(program)
        path = os.pathsep.join(filter(None, sys.path))
        made.append(
            ArmProcess([sys.executable, str(file)], {**os.environ, "PYTHONPATH": path}, tmp_path)
        )
        return made[-1]

    yield run
    for process in made:
        process.close()


def test_a_conversation(start: Start) -> None:
    process = start(SERVED)
    assert process.ask(60, do="open", spec={"name": "a"}) == {"a": {"nodes": 3}}
    assert process.ask(60, do="burst", who="a", steps=4) == {"wall_us": 8.0, "host_us": 1.0}
    with pytest.raises(ArmFailed, match="ValueError: no tracer"):
        process.ask(60, do="trace", who="a", steps=1)
    # An error is an answer: the process goes on.
    assert process.ask(60, do="burst", who="a", steps=1)["wall_us"] == 2.0
    with pytest.raises(ArmFailed, match="KeyError"):
        process.ask(60, do="burst", who="b", steps=1)
    process.close()
    process.close()


def test_a_death_is_told_with_its_last_words(start: Start) -> None:
    process = start("import sys; sys.stdin.readline(); sys.exit('out of luck')")
    with pytest.raises(ArmFailed, match="ended with 1: out of luck"):
        process.ask(60, do="open", spec={})
    with pytest.raises(ArmFailed, match="out of luck"):
        process.ask(60, do="burst", who="a", steps=1)


def test_silence_ends_in_time(start: Start) -> None:
    process = start("import time; time.sleep(600)")
    begin = time.monotonic()
    with pytest.raises(ArmFailed, match="open did not end in time"):
        process.ask(0.5, do="open", spec={})
    assert time.monotonic() - begin < 30
