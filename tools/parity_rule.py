"""How often does the rule of tools/parity.py fail two implementations that are both right?

    python tools/parity_rule.py --seeds 12 --json F

Everything is PyTorch in float32 on the CPU, so that nothing but rounding can differ. For each seed
a small charlm is trained from the same weights over the same batches by

* `torch`: the plain program, which the others are compared with;
* `nudged`: the same from weights moved by a unit in the last place, three times over with other
  draws: the farthest, window by window, is tools/parity.py's yardstick; it was the first alone;
* `each`: the same, with the weights moved by a unit in the last place after every step;
* `parts`, `order`: two other right implementations. In `parts` the matrix products add in four
  parts, and layer norm and AdamW are written out in other operations; in `order` the windows of a
  batch stand in reverse, so that gradients and loss add them the other way round;
* and, for the first seeds, by wrong ones (`WRONG`), which a rule has to fail: a learning rate of
  1e-4 too much, AdamW's epsilon added before the bias correction, a GELU with its constant cut.

F gets every run's distance from `torch` window by window, and what each of RULES makes of them: a
run's excess is the largest of (distance over what the rule allows), and it fails above 1. Twelve
seeds take seven minutes of one core.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch import nn

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

import parity  # noqa: E402
import parity_rival  # noqa: E402

from lowgraph.models.presets import CharLMConfig  # noqa: E402
from lowgraph.train.data import read_corpus  # noqa: E402
from lowgraph.train.plan import Plan, Schedule  # noqa: E402
from lowgraph.train.result import finite, write_json  # noqa: E402

Tensor = torch.Tensor
Distances = dict[str, list[float]]

SHAPE = CharLMConfig(context=32, width=32, heads=4, layers=2)
RATE = 1.5e-2  # high: at nano's 6e-3 a model this small multiplies roundings by ten only
WINDOW = 100  # steps, as in tools/parity.py
NUDGES = ("nudged", "nudged 2", "nudged 3")
RIGHT = ("parts", "order")
WRONG = ("rate", "epsilon", "gelu")
_PIECES = 4


def in_parts(a: Tensor, b: Tensor) -> Tensor:
    """a [m, k] times b [k, n]; the sum over k in four parts, added one by one."""
    pieces = zip(a.chunk(_PIECES, dim=1), b.chunk(_PIECES, dim=0), strict=True)
    first, *others = (left @ right for left, right in pieces)
    for other in others:
        first = first + other
    return first


class Linear(torch.autograd.Function):
    """y = x w^T with its sums in parts, in the backward pass too. x [m, k], w [n, k]."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor) -> Tensor:
        """The product."""
        ctx.save_for_backward(x, w)
        return in_parts(x, w.t())

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        """Of x and w."""
        x, w = ctx.saved_tensors
        (dy,) = gradients
        return in_parts(dy, w), in_parts(dy.t(), x)


def rewrite(module: nn.Module) -> None:
    """Make a module's products sum in parts, and write its layer norms out."""

    def linear(layer: nn.Linear) -> Callable[[Tensor], Tensor]:
        def forward(x: Tensor) -> Tensor:
            y = Linear.apply(x.reshape(-1, x.shape[-1]), layer.weight)
            y = y if layer.bias is None else y + layer.bias
            return y.view(*x.shape[:-1], -1)

        return forward

    def norm(layer: nn.LayerNorm) -> Callable[[Tensor], Tensor]:
        def forward(x: Tensor) -> Tensor:
            centred = x - x.mean(dim=-1, keepdim=True)
            spread = (centred * centred).mean(dim=-1, keepdim=True)
            return centred * torch.rsqrt(spread + layer.eps) * layer.weight + layer.bias

        return forward

    for part in module.modules():
        if isinstance(part, nn.Linear):
            part.forward = linear(part)  # type: ignore[method-assign]
        elif isinstance(part, nn.LayerNorm):
            part.forward = norm(part)  # type: ignore[method-assign]


class WrittenAdamW:
    """torch.optim.AdamW's update in other operations, over the same groups."""

    def __init__(self, optimizer: torch.optim.AdamW, *, early_epsilon: bool = False) -> None:
        """early_epsilon: a known slip, the epsilon added before the bias correction."""
        self.param_groups = optimizer.param_groups
        self._early = early_epsilon
        self._steps = 0
        self._moments = {
            p: (torch.zeros_like(p), torch.zeros_like(p))
            for group in self.param_groups
            for p in group["params"]
        }

    def zero_grad(self) -> None:
        """Forget the gradients."""
        for parameter in self._moments:
            parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """One update of every parameter."""
        self._steps += 1
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            size = group["lr"] / (1 - beta1**self._steps)
            root = (1 - beta2**self._steps) ** 0.5
            for p in group["params"]:
                first, second = self._moments[p]
                first.copy_(beta1 * first + (1 - beta1) * p.grad)
                second.copy_(beta2 * second + (1 - beta2) * (p.grad * p.grad))
                spread = second.sqrt()
                early = (spread + group["eps"]) / root
                spread = early if self._early else spread / root + group["eps"]
                p.copy_(p - p * (group["lr"] * group["weight_decay"]) - size * (first / spread))


def nudge(module: nn.Module, generator: torch.Generator) -> None:
    """Each weight a unit in the last place up or down, or as it is."""
    with torch.no_grad():
        for p in module.parameters():
            toward = torch.randint(-1, 2, p.shape, generator=generator)
            moved = torch.nextafter(p, toward.float() * float("inf"))
            p.copy_(torch.where(toward == 0, p, moved))


def losses(
    job: dict[str, Any], folder: Path, name: str, batch: Callable[[int], Any]
) -> list[float]:
    """The losses of one run, by its name in the module's text."""
    module = parity_rival.make_module(job, folder)
    optimizer: Any = parity_rival.make_optimizer(job, module)
    draws = torch.Generator().manual_seed(1 + (NUDGES.index(name) if name in NUDGES else 0))
    if name in NUDGES:
        nudge(module, draws)
    if name == "parts":
        rewrite(module)
    if name in ("parts", "epsilon"):
        optimizer = WrittenAdamW(optimizer, early_epsilon=name == "epsilon")
    share = 1 + 1e-4 if name == "rate" else 1.0
    found = []
    for step, rate in enumerate(job["rates"]):
        for group in optimizer.param_groups:
            group["lr"] = rate * share
        optimizer.zero_grad()
        tokens = batch(step)
        with rough_gelu() if name == "gelu" else nullcontext():
            loss = module(*(part.flip(0) for part in tokens) if name == "order" else tokens)
        loss.backward()
        optimizer.step()
        if name == "each":
            nudge(module, draws)
        found.append(float(loss.detach()))
    return found


def rough_gelu() -> Any:
    """Inside, the tanh form of GELU has its constant cut to four digits, as it is often typed."""

    def cut(x: Tensor, approximate: str) -> Tensor:
        del approximate
        return 0.5 * x * (1 + torch.tanh(0.7978 * (x + 0.044715 * x**3)))

    return mock.patch.object(nn.functional, "gelu", cut)


def run_seed(seed: int, steps: int, wrong: bool) -> dict[str, Distances]:
    """Of every run: mean and largest relative distance from `torch`, window by window."""
    schedule = Schedule(steps=steps, warmup=100, learning_rate=RATE, batch=8, seed=seed)
    plan = Plan("charlm", "small twin", SHAPE, schedule, log_every=WINDOW)
    with tempfile.TemporaryDirectory() as root:
        folder = Path(root)
        parity.write_job(folder, plan, read_corpus(None), "cpu", draw=0)
        job = json.loads((folder / "job.json").read_text(encoding="utf-8"))
        batch = parity_rival.make_batches(job, folder)
        names = ["torch", *NUDGES, "each", *RIGHT, *(WRONG if wrong else ())]
        runs = {}
        for name in names:
            start = time.perf_counter()
            runs[name] = losses(job, folder, name, batch)
            took = time.perf_counter() - start
            print(
                f"seed {seed:3}  {name:8}  last loss {runs[name][-1]:.4f}  {took:.1f} s", flush=True
            )
    reference = runs.pop("torch")
    found = {}
    for name, values in runs.items():
        away = np.array(parity.distances(values, reference)).reshape(-1, WINDOW)
        found[name] = {"mean": away.mean(axis=1).tolist(),
                       "first_50_max": [float(away.ravel()[: parity.BEGIN].max())]}  # fmt: skip
    return found


# ---- rules: what each window's mean distance may be ----


def once(runs: dict[str, Distances]) -> np.ndarray[Any, Any]:
    """Ten times the distance of one nudged run."""
    return parity.MARGIN * np.array(runs["nudged"]["mean"]) + parity.FLOOR


def widest(runs: dict[str, Distances]) -> np.ndarray[Any, Any]:
    """tools/parity.py's: ten times the largest distance of three nudged runs."""
    three = np.max([runs[name]["mean"] for name in NUDGES], axis=0)
    return parity.MARGIN * three + parity.FLOOR


def every_step(runs: dict[str, Distances]) -> np.ndarray[Any, Any]:
    """Ten times the distance of the run that is nudged after every step."""
    return parity.MARGIN * np.array(runs["each"]["mean"]) + parity.FLOOR


RULES = {"one nudge": once, "widest of three nudges": widest, "a nudge each step": every_step}


def excesses(found: dict[int, dict[str, Distances]], rule: Any, name: str) -> Iterator[float]:
    """Of every seed that has the run: the largest share of what the rule allows."""
    for runs in found.values():
        if name in runs:
            over = float(np.max(np.array(runs[name]["mean"]) / rule(runs)))
            yield max(over, runs[name]["first_50_max"][0] / parity.BEGIN_LIMIT)


def judge(found: dict[int, dict[str, Distances]]) -> dict[str, Any]:
    """Of every rule and run: excess by seed, and how many fail."""
    judged: dict[str, Any] = {}
    for label, rule in RULES.items():
        judged[label] = {}
        for name in (*RIGHT, *WRONG):
            each = list(excesses(found, rule, name))
            if each:
                failed = sum(value > 1 for value in each)
                judged[label][name] = {"excess": each, "failed": failed, "of": len(each)}
    return judged


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=12, help="of weights and batches")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--wrong", type=int, default=3, help="seeds that the wrong ones run too")
    parser.add_argument("--steps", type=int, default=800, help="a multiple of 100")
    parser.add_argument("--json", type=Path, required=True)
    given = parser.parse_args()
    if given.steps < WINDOW or given.steps % WINDOW:
        parser.error(f"--steps {given.steps}: give a multiple of {WINDOW}")
    torch.set_num_threads(1)
    found: dict[int, dict[str, Distances]] = {}
    for seed in range(given.first, given.first + given.seeds):
        found[seed] = run_seed(seed, given.steps, seed < given.first + given.wrong)
        judged = judge(found)
        figures = {
            "torch": torch.__version__,
            "steps": given.steps,
            "window": WINDOW,
            "learning_rate": RATE,
            "cpu_seconds": time.process_time(),
            "rules": judged,
            "seeds": {str(number): runs for number, runs in found.items()},
        }
        write_json(given.json, finite(figures))
    for label, runs in judged.items():
        for name, row in runs.items():
            told = ", ".join(f"{value:.2f}" for value in sorted(row["excess"]))
            print(f"{label:24} {name:8} failed {row['failed']} of {row['of']}; excess {told}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
