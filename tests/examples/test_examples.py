"""The examples run, stay short, and print what they are there to show."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.process import ROOT, words_of

EXAMPLE = ROOT / "examples" / "mistakes.py"

# What each mistake prints: the kind, words of the reason, words of the remedy, and what is on the
# line of the example's source that it names.
REFUSALS = {
    "allocate": (
        "CaptureAllocationError",
        "cuMemAlloc was called in the capture window of 'allocate'",
        "take memory before the step, or from the pool",
        "driver.memory.alloc(",
    ),
    "synchronize": (
        "SyncDuringCapture",
        "cuStreamSynchronize was called in the capture window of 'synchronize'",
        "read results after the step",
        "driver.stream.synchronize(",
    ),
    "wrong_stream": (
        "CaptureIncomplete",
        "kernel descend was sent to stream 0x0",
        "use the stream that the body is given",
        "self.descend(0,",
    ),
    "baked_rate": (
        "FrozenScalar",
        "argument 'rate' of descend (launch 0) was 0.1 in the priming pass and 0.05",
        "keep what changes from step to step in device memory",
        "GRID, BLOCK, self.w, self.g, rate, N)",
    ),
    "good": (
        "InputMoved",
        "input 'batch' of 'good' moved (address)",
        "declare it as a pin that may move",
        "step()",
    ),
}


@pytest.fixture(scope="module")
def printed(request: pytest.FixtureRequest) -> list[str]:
    return _run("mistakes.py", request.config.getoption("--device"))


def _run(name: str, spec: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-W", "error", f"examples/{name}", spec],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=200,
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert words_of(done.stderr) == ""
    return done.stdout.splitlines()


@pytest.mark.both
@pytest.mark.parametrize("mistake", REFUSALS)
def test_each_mistake_prints_its_refusal(printed: list[str], mistake: str) -> None:
    kind, reason, remedy, at_fault = REFUSALS[mistake]
    lines = [line for line in printed if line.startswith(f"lowgraph: {mistake}: ")]
    assert len(lines) == 1, f"said once: {lines}"
    said = lines[0]
    assert f": {kind}: " in said and reason in said and remedy in said, said
    assert said.index(reason) < said.index(remedy), "what, then what to do"
    place = re.search(r"mistakes\.py:(\d+): ", said)
    assert place, said
    assert at_fault in EXAMPLE.read_text().splitlines()[int(place[1]) - 1], said


@pytest.mark.both
def test_after_each_refusal_the_run_goes_on(printed: list[str]) -> None:
    ran = [line.strip() for line in printed if "steps ran" in line]
    assert ran == ["3 steps ran without a graph, 0 with"] * (len(REFUSALS) - 1)


@pytest.mark.both
def test_own_kernel_runs(request: pytest.FixtureRequest) -> None:
    printed = _run("own_kernel.py", request.config.getoption("--device"))
    assert "  steps 10: 1 eager, 9 replayed" in printed


@pytest.mark.parametrize("script", ["examples/own_kernel.py", "examples/mistakes.py"])
def test_a_bad_environment_variable_is_one_line(script: str) -> None:
    done = subprocess.run(
        [sys.executable, script, "host"], cwd=ROOT, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT), "LOWGRAPH_HOST_SHUFFLE": "often"}, timeout=200,
    )  # fmt: skip
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.startswith("error: $LOWGRAPH_HOST_SHUFFLE is 'often': give a seed")


def test_parity_refuses_bad_input_in_one_line(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="the oracle extra is not installed")
    done = subprocess.run(
        [sys.executable, "tools/parity.py", "--preset", "huge", "--json", str(tmp_path / "f")],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=200,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.startswith("error: unknown preset 'huge' of charlm")


def test_without_cuda_core_the_example_names_the_package() -> None:
    program = (
        "import runpy, sys; sys.modules['cuda.core'] = None; "
        "runpy.run_path('examples/cuda_core_graph.py', run_name='__main__')"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False,
        timeout=200,
    )  # fmt: skip
    assert done.returncode == 1 and done.stderr.endswith("; pip install cuda-core\n")
    assert "Traceback" not in done.stderr


def test_own_kernel_is_ten_lines() -> None:
    """Statements from opening the device to the report; what checks the result is not counted."""
    tree = ast.parse((ROOT / "examples" / "own_kernel.py").read_text())
    main = next(node for node in tree.body if getattr(node, "name", "") == "main")
    statements = [node for node in ast.walk(main) if isinstance(node, ast.stmt)][1:]
    calls_check = [node for node in statements if ast.unparse(node).startswith("check(")]
    assert len(statements) - len(calls_check) <= 10 and len(calls_check) == 1
