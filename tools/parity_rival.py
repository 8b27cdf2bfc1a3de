"""The other side of tools/parity.py: a job's model trained by PyTorch, in a process of its own.

    python tools/parity_rival.py FOLDER ...

A FOLDER holds job.json, weights.npz and data.npz (see `parity.write_job`) and gets result.json:
`losses` of each step, `lap_us` (mean microseconds of the steps of each lap, the first lap among
them), `torch`, `device`, `module`. PyTorch in float32 without TF32; on a GPU with the fused AdamW
and the whole step in one CUDA graph, for mamba2's module goes through time in Python: thousands of
launches a step. The plain program of the same function, not compiled: no benchmark.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from lowgraph.models.registry import find_model  # noqa: E402

Batch = tuple[torch.Tensor, torch.Tensor]


def charlm() -> type[nn.Module]:
    from tests.models.rival_lm import LM

    return LM


def mamba2() -> type[nn.Module]:
    from tests.models.rival_mamba2 import Perception

    return Perception


def mamba2_lm() -> type[nn.Module]:
    from tests.models.rival_mamba2_lm import LM

    return LM


# Modules that take a shape of ours, name their parameters as ours, and answer with the mean loss.
MODULES: dict[str, Callable[[], type[nn.Module]]] = {
    "charlm": charlm,
    "mamba2": mamba2,
    "mamba2-lm": mamba2_lm,
}


def make_module(job: dict[str, Any], folder: Path) -> nn.Module:
    """The job's model with the job's weights, all of them and no other."""
    shape = find_model(job["model"]).config(**job["shape"])
    module: nn.Module = MODULES[job["model"]]()(shape)
    with np.load(folder / "weights.npz") as weights:
        state = {name: torch.from_numpy(weights[name]) for name in weights.files}
    module.load_state_dict(state, strict=True)
    return module.to(job["device"]).train()


def make_optimizer(job: dict[str, Any], module: nn.Module) -> torch.optim.AdamW:
    """AdamW with decay on the parameters that the job names."""
    named = dict(module.named_parameters())
    decayed = [named[name] for name in job["decayed"]]
    others = [named[name] for name in named if name not in set(job["decayed"])]
    groups = [
        {"params": decayed, "weight_decay": job["weight_decay"]},
        {"params": others, "weight_decay": 0.0},
    ]
    on_gpu = job["device"].startswith("cuda")
    # A captured step reads its rate from the device.
    rate = torch.zeros((), device=job["device"]) if on_gpu else 1.0
    return torch.optim.AdamW(
        groups, lr=rate, betas=job["betas"], eps=job["epsilon"], fused=on_gpu, capturable=on_gpu
    )


def make_batches(job: dict[str, Any], folder: Path) -> Callable[[int], Batch]:
    """The batch of a step, counted from 0, cut on the device where the job says windows begin."""
    with np.load(folder / "data.npz") as data:
        arrays = {name: torch.from_numpy(data[name]).to(job["device"]) for name in data.files}
    starts = arrays.pop("starts")
    along = torch.arange(job["shape"]["context"], device=job["device"])

    def batch(step: int) -> Batch:
        places = starts[step][:, None] + along
        if "text" in arrays:  # the targets are the bytes one on
            return arrays["text"][places].long(), arrays["text"][places + 1].long()
        return arrays["features"][places], arrays["labels"][places]

    return batch


class Clock:
    """Time between marks: by events on a GPU's own clock, else the host's."""

    def __init__(self, device: str) -> None:
        self._on_gpu = device.startswith("cuda")
        self._marks: list[Any] = []

    def mark(self) -> None:
        """Take the time here."""
        if self._on_gpu:
            event = torch.cuda.Event(enable_timing=True)
            event.record()
            self._marks.append(event)
        else:
            self._marks.append(time.perf_counter())

    def microseconds(self) -> list[float]:
        """Between each two marks that follow each other."""
        pairs = zip(self._marks, self._marks[1:], strict=False)
        if self._on_gpu:
            torch.cuda.synchronize()
            return [1e3 * one.elapsed_time(other) for one, other in pairs]
        return [1e6 * (other - one) for one, other in pairs]


class EagerStep:
    """A step, launched operation by operation."""

    def __init__(self, module: nn.Module, optimizer: torch.optim.AdamW) -> None:
        self._module = module
        self._optimizer = optimizer

    def __call__(self, batch: Batch, rate: float) -> torch.Tensor:
        """Do one; returns its loss."""
        for group in self._optimizer.param_groups:
            group["lr"] = rate
        return self.run(batch)

    def run(self, batch: Batch) -> torch.Tensor:
        """The same at the rate that stands."""
        self._optimizer.zero_grad(set_to_none=True)
        loss: torch.Tensor = self._module(*batch)
        loss.backward()
        self._optimizer.step()
        return loss.detach()


class GraphedStep:
    """The same on a GPU as one CUDA graph, which reads batch and rate where it was captured."""

    def __init__(
        self, module: nn.Module, optimizer: torch.optim.AdamW, batch: Batch, warm: int = 3
    ) -> None:
        eager = EagerStep(module, optimizer)
        self._inputs, self._targets = (part.clone() for part in batch)
        self._rates = [group["lr"] for group in optimizer.param_groups]
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(
                warm
            ):  # the rate is 0 still, and what it scales the decay: nothing moves
                eager.run((self._inputs, self._targets))
        torch.cuda.current_stream().wait_stream(side)
        for state in optimizer.state.values():
            for value in state.values():
                value.zero_()
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            self._loss = eager.run((self._inputs, self._targets))

    def __call__(self, batch: Batch, rate: float) -> torch.Tensor:
        """Do one; returns its loss, which the next one overwrites."""
        self._inputs.copy_(batch[0])
        self._targets.copy_(batch[1])
        for held in self._rates:
            held.fill_(rate)
        self._graph.replay()
        return self._loss


def train(job: dict[str, Any], folder: Path) -> dict[str, Any]:
    """What result.json gets."""
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = False
    module = make_module(job, folder)
    optimizer = make_optimizer(job, module)
    batch = make_batches(job, folder)
    steps, lap = len(job["rates"]), job["lap"]
    step_once: EagerStep | GraphedStep = EagerStep(module, optimizer)
    if job["device"].startswith("cuda"):
        step_once = GraphedStep(module, optimizer, batch(0))
    losses = torch.empty(steps, device=job["device"])  # read once: a step waits for nothing
    clock = Clock(job["device"])
    clock.mark()
    for step, rate in enumerate(job["rates"]):
        losses[step] = step_once(batch(step), rate)
        if (step + 1) % lap == 0 or step + 1 == steps:
            clock.mark()
    sizes = [min(lap, steps - first) for first in range(0, steps, lap)]
    return {
        "losses": losses.tolist(),
        "lap_us": [us / size for us, size in zip(clock.microseconds(), sizes, strict=True)],
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name() if job["device"].startswith("cuda") else "cpu",
        "module": f"{type(module).__module__}.{type(module).__qualname__}",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", type=Path, nargs="+")
    for folder in parser.parse_args().folders:
        job = json.loads((folder / "job.json").read_text(encoding="utf-8"))
        result = train(job, folder)
        (folder / "result.json").write_text(json.dumps(result), encoding="utf-8")


if __name__ == "__main__":
    main()
