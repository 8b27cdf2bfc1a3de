"""examples/train_small.py as its users run it: in a process of its own."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from lowgraph.train.data import read_corpus
from tests.train.runs import EXAMPLE, ROOT, environment, example

pytestmark = pytest.mark.both

# The keys that other programs read (docs/report.md).
KEYS = [
    "device", "model", "preset", "params", "steps", "loss_first", "loss_last", "losses",
    "heldout_loss", "bigram_loss", "captures", "updates", "replays", "refusals",
    "launches_eager_step", "launches_replay_step", "nodes", "pool_bytes", "retained_bytes",
    "step_us",
    "warm_step_us",
]  # fmt: skip


@pytest.fixture
def spec(request: pytest.FixtureRequest) -> str:
    return str(request.config.getoption("--device"))


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("the quick brown fox jumps over the lazy dog. " * 400)
    return path


def test_a_run_writes_all_it_is_asked_for(spec: str, text: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    figures, picture, folder = tmp_path / "f.json", tmp_path / "f.png", tmp_path / "ckpt"
    done = example(
        "--device", spec, "--preset", "nano", "--steps", "8", "--data", str(text),
        "--json", str(figures), "--plot", str(picture), "--checkpoint", str(folder),
        "--sample", "5", "--eval-every", "4",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(figures.read_text())
    assert [key for key in KEYS if key not in found] == []
    assert (found["steps"], len(found["losses"])) == (8, 8)
    assert (found["loss_first"], found["loss_last"]) == (found["losses"][0], found["losses"][-1])
    assert (found["captures"], found["replays"], found["refusals"]) == (1, 7, 0)
    assert found["library_calls_eager_step"] == 0 and "kernels by stage: " in done.stdout
    assert [step for step, _ in found["heldout"]] == [4, 8]
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert [path.name for path in folder.iterdir()] == ["checkpoint.safetensors"]
    for said in ("device: ", "sha256 ", "GEMM by ", "precision: float32", "parameters", "graph: on",
                 "nodes captured", "priming: ", "tokens/s", "ms/step", "held-out loss", "bigram",
                 "captures 1", "sample of 5 bytes", "checkpoint: step 8",
                 "\nloss in nats a byte; tokens are bytes\n"):  # fmt: skip
        assert said in done.stdout, f"{said!r} is not in\n{done.stdout}"
    on_the_way = f"step      4/8  held-out loss {found['heldout'][0][1]:.4f}"
    assert done.stdout.splitlines().count(on_the_way) == 1


def test_a_checkpoint_is_resumed_by_the_command(spec: str, text: Path, tmp_path: Path) -> None:
    common = ["--device", spec, "--preset", "nano", "--data", str(text)]
    folder, figures = tmp_path / "ckpt", tmp_path / "f.json"
    newest, previous = folder / "checkpoint.safetensors", folder / "previous.safetensors"
    into = ["--checkpoint", str(folder), "--checkpoint-every", "2"]
    first = example(*common, "--steps", "3", *into)
    assert first.returncode == 0, first.stderr
    assert [line for line in first.stdout.splitlines() if line.startswith("checkpoint: ")] == [
        f"checkpoint: step 2 in {newest}", f"checkpoint: step 3 in {newest}",
    ]  # fmt: skip
    # What a writer killed between its two renames leaves.
    newest.rename(previous)
    (folder / ".checkpoint.safetensors.abcd1234").write_bytes(b"half")
    second = example(
        *common, "--steps", "6", "--resume", str(folder), "--json", str(figures), *into
    )
    assert second.returncode == 0, second.stderr
    assert second.stdout.splitlines()[1:5] == [
        f"resume: 3 steps done, from {previous}",
        "resume: it is the one before; a killed writer left no checkpoint.safetensors",
        "checkpoint: removed .checkpoint.safetensors.abcd1234, left by a killed run",
        "resume: begun with --steps 3; 6 stretches the learning-rate schedule from here on",
    ]
    found = json.loads(figures.read_text())
    assert (found["steps"], found["resumed_from"], len(found["losses"])) == (6, 3, 3)
    assert sorted(path.name for path in folder.iterdir()) == [newest.name, previous.name]


def test_no_graph_launches_every_kernel(spec: str, text: Path, tmp_path: Path) -> None:
    figures = tmp_path / "f.json"
    done = example(
        "--device", spec, "--preset", "nano", "--steps", "3", "--data", str(text),
        "--no-graph", "--json", str(figures),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "graph: off: --no-graph" in done.stdout
    assert "DISABLED (no graph: asked for with --no-graph)" in done.stdout
    found = json.loads(figures.read_text())
    assert (found["captures"], found["replays"], found["nodes"]) == (0, 0, 0)


def test_ctrl_c_ends_with_report_figures_and_checkpoint(
    spec: str, text: Path, tmp_path: Path
) -> None:
    figures, folder = tmp_path / "f.json", tmp_path / "ckpt"
    command = [
        sys.executable, str(EXAMPLE), "--device", spec, "--preset", "nano", "--steps", "1000000",
        "--data", str(text), "--log-every", "2", "--json", str(figures),
        "--checkpoint", str(folder),
    ]  # fmt: skip
    running = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=environment(),
    )
    try:
        assert running.stdout is not None
        for line in running.stdout:
            if line.startswith("step "):
                break
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=120)
    finally:
        running.kill()
        running.wait()
    assert running.returncode == 0, err
    assert "interrupted after step" in out
    assert "captures 1" in out
    laps = [line for line in out.splitlines() if line.startswith("step ")]
    assert laps[-1].startswith(f"step {json.loads(figures.read_text())['steps']:6d}/")
    assert "Traceback" not in err
    found = json.loads(figures.read_text())
    assert found["interrupted"] is True
    assert 0 < found["steps"] == len(found["losses"]) < 1000000
    assert (folder / "checkpoint.safetensors").exists()


@pytest.mark.slow
def test_the_main_job_learns_more_than_single_bytes(spec: str, tmp_path: Path) -> None:
    """200 steps of nano on the standard library pass the unigram entropy by a nat's tenth."""
    figures = tmp_path / "f.json"
    done = example("--device", spec, "--preset", "nano", "--steps", "200", "--json", str(figures))
    assert done.returncode == 0, done.stderr
    found = json.loads(figures.read_text())
    assert (found["captures"], found["replays"], found["refusals"]) == (1, 199, 0)
    assert found["heldout_loss"] < _unigram_entropy() - 0.1
    assert found["heldout_loss"] < found["losses"][0] - 1


def _unigram_entropy() -> float:
    corpus = read_corpus(None)
    chance = np.bincount(corpus.train, minlength=256) / len(corpus.train)
    return float(-np.sum(chance * np.log(np.maximum(chance, 1e-300))))
