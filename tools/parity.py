"""Does a run learn as PyTorch's does?

    python tools/parity.py --model charlm [--preset P] --steps 2000 --json F [--plot F.png]

Trains lowgraph, and the PyTorch module of the same function (tools/parity_rival.py, in a process
of its own on the same device: the GPU, or the CPU for the host device) from the same weights over
the same batches, with the same schedule and AdamW; then PyTorch three times more, from weights
moved by a unit in the last place, with another draw each time. Training multiplies any rounding, so
after some hundred steps runs of PyTorch itself are far apart: the farthest of the three is the
yardstick, window by window (docs/decisions/0015-parity-has-three-yardsticks.md). docs/parity.md
tells the keys of F. Exit code 1 when a window of steps is farther from PyTorch than ten times the
yardstick, or one of the first 50 losses by more than 1e-4.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from lowgraph._version import VERSION  # noqa: E402
from lowgraph.cli import exit_code  # noqa: E402
from lowgraph.driver import open_device  # noqa: E402
from lowgraph.models.registry import find_model  # noqa: E402
from lowgraph.ops.philox import batch_starts  # noqa: E402
from lowgraph.train import plot  # noqa: E402
from lowgraph.train.checks import at_least  # noqa: E402
from lowgraph.train.config import TrainConfig  # noqa: E402
from lowgraph.train.datasets import Dataset, plan_for, read_data  # noqa: E402
from lowgraph.train.loop import Trainer  # noqa: E402
from lowgraph.train.plan import Plan, model_of  # noqa: E402
from lowgraph.train.result import finite, write_json  # noqa: E402
from lowgraph.train.step_log import Lap  # noqa: E402
from tests.models.cases import scheduled_rate  # noqa: E402

Array = npt.NDArray[Any]

MODELS = ("charlm", "mamba2", "mamba2-lm")  # that tools/parity_rival.py has a module of
MARGIN = 10.0  # as for gradients: ten times the oracle's own distance
FLOOR = 1e-6  # a loss is a float32 sum of thousands of terms: some units of 6e-8
NUDGES = 3  # draws: of one alone, two right programs miss ten times in five of 24 runs
BEGIN, BEGIN_LIMIT = 50, 1e-4  # and the first steps have a limit that no yardstick moves
LAP = 50  # steps between two readings of the clock; the first lap is not timed


def ours(device: Any, config: TrainConfig, plan: Plan, data: Dataset) -> dict[str, Any]:
    """Losses and times of lowgraph's run."""
    laps: list[Lap] = []
    with Trainer(
        device, config, plan, data, on_lap=lambda trainer, lap: laps.append(lap)
    ) as trainer:
        trainer.train()
        if trainer.interrupted:
            raise SystemExit("interrupted")
        report = trainer.parts.graph_step.report()
        title = trainer.parts.blas.describe()
    return {
        "losses": trainer.losses,
        "step_us": mean_us([(lap.ms * 1e3, len(lap.losses)) for lap in laps if lap.first >= LAP]),
        "captures": report.captures,
        "launches_replay_step": report.launches_replay_step,
        "gemm": title,
    }


def rivals(plan: Plan, data: Dataset, device: str) -> list[dict[str, Any]]:
    """Losses and times of PyTorch's runs over the same steps: the plain one, then the nudged."""
    with tempfile.TemporaryDirectory() as root:
        folders = [Path(root, str(draw)) for draw in range(1 + NUDGES)]
        for draw, folder in enumerate(folders):
            folder.mkdir()
            write_job(folder, plan, data, device, draw)
        command = [sys.executable, str(ROOT / "tools/parity_rival.py"), *map(str, folders)]
        if subprocess.run(command, cwd=ROOT, check=False).returncode:
            raise SystemExit("PyTorch's side failed, as told above: nothing is compared")
        return [read_result(folder, plan) for folder in folders]


def read_result(folder: Path, plan: Plan) -> dict[str, Any]:
    """result.json, with the mean time of the steps after the first lap."""
    found: dict[str, Any] = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    steps = plan.schedule.steps
    timed = [(us, min(LAP, steps - LAP * lap)) for lap, us in enumerate(found.pop("lap_us"))][1:]
    return {**found, "step_us": mean_us(timed)}


def mean_us(laps: list[tuple[float, int]]) -> float | None:
    """The mean of (microseconds a step, steps); None when there is none."""
    steps = sum(size for _, size in laps)
    return sum(us * size for us, size in laps) / steps if steps else None


def write_job(folder: Path, plan: Plan, data: Dataset, device: str, draw: int) -> None:
    """job.json, weights.npz and data.npz: all that the other process is told.

    draw: which nudge the weights get; 0 leaves them as they are.
    """
    schedule, entry = plan.schedule, find_model(plan.model)
    weights = entry.initial_values(plan.shape, schedule.seed)
    names = [spec.name for spec in entry.specs(plan.shape)]
    job = {
        "model": plan.model,
        "shape": asdict(plan.shape),
        "device": device,
        "rates": [scheduled_rate(schedule, step) for step in range(1, schedule.steps + 1)],
        "betas": [schedule.beta1, schedule.beta2],
        "epsilon": schedule.epsilon,
        "weight_decay": schedule.weight_decay,
        "decayed": [name for name in names if weights[name].ndim > 1],
        "lap": LAP,
    }
    (folder / "job.json").write_text(json.dumps(job), encoding="utf-8")
    np.savez(folder / "weights.npz", **(nudged(weights, draw) if draw else weights))
    np.savez(folder / "data.npz", **batches(plan, data))


def batches(plan: Plan, data: Any) -> dict[str, Array]:
    """The training data, and where the windows of each step begin: int64 [steps, B]."""
    schedule, context = plan.schedule, plan.shape.context
    if data.kind == "text":
        arrays, places = {"text": data.train}, len(data.train)
    else:  # a row carries its own label: one place more than in a text, whose target lies behind it
        arrays = {"features": data.train.features, "labels": data.train.labels}
        places = len(data.train.labels) + 1
    starts = [
        batch_starts(schedule.seed, step, schedule.batch, context, places)
        for step in range(1, schedule.steps + 1)
    ]
    return {**arrays, "starts": np.stack(starts).astype(np.int64)}


def nudged(weights: dict[str, Array], draw: int) -> dict[str, Array]:
    """Each weight moved by a unit in the last place, up or down, or left as it is."""
    generator = np.random.default_rng(draw)
    moved = {}
    for name, value in weights.items():
        toward = generator.choice(np.float32([-np.inf, 0, np.inf]), value.shape)
        moved[name] = np.where(toward == 0, value, np.nextafter(value, toward))
    return moved


def distances(one: list[float], other: list[float]) -> list[float]:
    """Of each step: |one - other| / |other|."""
    reference = np.asarray(other)
    return list(np.abs(np.asarray(one) - reference) / np.abs(reference))


def nudged_distances(runs: dict[str, Any]) -> list[list[float]]:
    """Of each nudged run from the plain one, step by step."""
    return [distances(run["losses"], runs["torch"]["losses"]) for run in runs["torch_nudged"]]


def windows(runs: dict[str, Any], size: int) -> list[dict[str, Any]]:
    """A row for each `size` steps; it has both mean losses too, to see through the noise."""
    lowgraph, torch = runs["lowgraph"]["losses"], runs["torch"]["losses"]
    away = distances(lowgraph, torch)
    yardsticks = nudged_distances(runs)
    rows = []
    for first in range(0, len(torch), size):
        part = slice(first, first + size)
        mean = float(np.mean(away[part]))
        each = [float(np.mean(yardstick[part])) for yardstick in yardsticks]
        rows.append(
            {
                "first_step": first + 1,
                "last_step": min(first + size, len(torch)),
                "max": float(np.max(away[part])),
                "mean": mean,
                "yardstick_max": max(float(np.max(yardstick[part])) for yardstick in yardsticks),
                "yardstick_mean": max(each),
                "yardsticks": each,
                "loss_lowgraph": float(np.mean(lowgraph[part])),
                "loss_torch": float(np.mean(torch[part])),
                "passed": mean <= MARGIN * max(each) + FLOOR,
            }
        )
    return rows


def compare(given: argparse.Namespace) -> dict[str, Any]:
    """Train on both sides and compare; what F gets."""
    at_least("window", given.window, 1)
    if given.plot is not None:
        plot.require(given.plot)
    config = TrainConfig(
        device=given.device, model=given.model, preset=given.preset, steps=given.steps,
        seed=given.seed, data=given.data, json=given.json, plot=given.plot, log_every=LAP,
    )  # fmt: skip
    data = read_data(model_of(config), config.data)
    device = open_device(config.device)
    plan, data = plan_for(config, device.kind, data)
    print(f"device: {device.spec}, {device.title}; {plan.model} {plan.preset}", flush=True)
    place = device.spec if device.spec.startswith("cuda") else "cpu"
    torch, *moved = rivals(plan, data, place)  # first: what PyTorch lacks is seen at once
    mine = ours(device, config, plan, data)
    runs = {"lowgraph": mine, "torch": torch, "torch_nudged": moved}
    names = ["lowgraph", "torch", *(f"torch_nudged {draw}" for draw in range(1, 1 + NUDGES))]
    for name, run in zip(names, [mine, torch, *moved], strict=True):
        print(said(name, run), flush=True)
    rows = windows(runs, given.window)
    begin = max(distances(mine["losses"], torch["losses"])[:BEGIN])
    return {
        "device": device.spec,
        "device_title": device.title,
        "version": VERSION,
        "model": plan.model,
        "preset": plan.preset,
        "steps": plan.schedule.steps,
        "schedule": asdict(plan.schedule),
        "shape": asdict(plan.shape),
        "data": data.source,
        "data_sha256": data.sha256,
        "unit": data.unit,
        **runs,
        "windows": rows,
        "first_50_max": float(begin),
        "passed": begin <= BEGIN_LIMIT and all(row["passed"] for row in rows),
    }


def said(name: str, run: dict[str, Any]) -> str:
    """One line about a run."""
    speed = "" if run["step_us"] is None else f", {run['step_us']:.0f} us a step"
    return f"{name:14}  loss {run['losses'][0]:.4f} to {run['losses'][-1]:.4f}{speed}"


def draw(path: Path, found: dict[str, Any]) -> None:
    """Both loss curves; below them how far lowgraph is from PyTorch, and PyTorch from itself."""
    sides = {name: found[name]["losses"] for name in ("torch", "lowgraph")}
    plot.compare(
        path,
        {"PyTorch": sides["torch"], "lowgraph": sides["lowgraph"]},
        unit=found["unit"],
        distances={
            "PyTorch from PyTorch, weights moved by one unit in the last place": [
                max(each) for each in zip(*nudged_distances(found), strict=True)
            ],
            "lowgraph from PyTorch": distances(sides["lowgraph"], sides["torch"]),
        },
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="charlm", choices=MODELS)
    parser.add_argument("--preset", help="size of the model (default: the device's)")
    parser.add_argument("--steps", type=int, default=2000, help="steps of each run (default: 2000)")
    parser.add_argument("--device", default="auto", help="auto, host, cuda or cuda:N")
    parser.add_argument("--seed", type=int, help="of weights and batches (default: 0)")
    parser.add_argument("--data", type=Path, help="as for train_small.py")
    parser.add_argument("--window", type=int, default=100, help="steps of a row (default: 100)")
    parser.add_argument("--json", type=Path, required=True, help="the file of all figures")
    parser.add_argument("--plot", type=Path, help="draw both losses to this file")
    given = parser.parse_args()
    found = compare(given)
    for row in found["windows"]:
        print("steps {first_step:5} to {last_step:5}: {mean:.2e} away, at most {max:.2e}; "
              "yardstick {yardstick_mean:.2e}; losses {loss_lowgraph:.4f} and {loss_torch:.4f}"
              .format(**row))  # fmt: skip
    write_json(given.json, finite(found))
    if given.plot is not None:
        draw(given.plot, found)
    print(f"first {BEGIN} steps: at most {found['first_50_max']:.2e} away, limit {BEGIN_LIMIT:g}")
    print("passed" if found["passed"] else "FAILED: lowgraph is too far from PyTorch")
    return 0 if found["passed"] else 1


if __name__ == "__main__":
    sys.exit(exit_code(lambda: sys.exit(main())))
