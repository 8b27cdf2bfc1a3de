"""PyTorch's arms, driven over pipes: python benchmarks/rivals/torch_rival.py (see lowgraph bench).

Modes: `eager`; `reduce-overhead`, torch.compile of the model in that mode; `gx`, the compiled model
with the whole step, optimizer included, in one CUDA graph. All with the fused optimizer, fused
attention, and the matrix products that the row's precision allows.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parent))

from torch_models import MODELS

from lowgraph.bench.busy import traced
from lowgraph.bench.serve import serve
from lowgraph.bench.update import drawn, moved

WARM_UPS = 4  # before a graph is captured: lazy initialisation and autotuning
Step = Callable[[int], torch.Tensor]


class TorchArm:
    """`step(n)` enqueues step n; timed as lowgraph's arm is."""

    def __init__(self, step: Callable[[int], object], device: torch.device) -> None:
        self.step, self.device, self.told = step, device, dict[str, Any]()
        self.number = 0

    def facts(self) -> dict[str, Any]:
        """Losses, memory, what is included."""
        return self.told

    def advance(self) -> None:
        """The next step."""
        self.step(self.number)
        self.number += 1

    def wait(self) -> None:
        """Until the device is idle."""
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def burst(self, steps: int) -> dict[str, float]:
        """Microseconds of a step; without a GPU (tests) the wall's are the host's."""
        self.wait()
        on_gpu = self.device.type == "cuda"
        marks = [torch.cuda.Event(enable_timing=True) for _ in range(2 * on_gpu)]
        for mark in marks[:1]:
            mark.record()
        begin = time.perf_counter()
        for _ in range(steps):
            self.advance()
        host = (time.perf_counter() - begin) * 1e6 / steps
        for mark in marks[1:]:
            mark.record()
        self.wait()
        wall = marks[0].elapsed_time(marks[1]) * 1e3 / steps if marks else host
        return {"wall_us": wall, "host_us": host}

    def trace(self, steps: int) -> dict[str, Any]:
        """Busy time of a step."""
        return traced(self.advance, self.wait, steps)


def open_arm(spec: Mapping[str, Any]) -> dict[str, TorchArm]:
    """The arm that the request names; warm, reset, its first losses taken."""
    device = torch.device(spec["device"])
    tf32 = spec["precision"] != "fp32"
    torch.set_float32_matmul_precision("high" if tf32 else "highest")
    torch.backends.cudnn.allow_tf32 = tf32
    make = _training if spec["kind"] == "train" else _update
    arm = make(spec, device)
    if device.type == "cuda":
        arm.told["memory_bytes"] = torch.cuda.max_memory_allocated(device)
        arm.told["reserved_bytes"] = torch.cuda.max_memory_reserved(device)
    arm.told["precision"] = spec["precision"]
    return {spec["who"]: arm}


# ---- a model's step ----


def _training(spec: Mapping[str, Any], device: torch.device) -> TorchArm:
    folder, mode = Path(spec["folder"]), spec["mode"]
    weights = {k: torch.from_numpy(v) for k, v in np.load(folder / "weights.npz").items()}
    data = np.load(folder / "batches.npz")
    inputs, targets = (_on(device, data[name]) for name in ("inputs", "targets"))
    model = MODELS[spec["model"]](spec["shape"])
    model.load_state_dict(weights, strict=True)
    model.to(device)
    optimizer = _optimizer(spec, list(model.parameters()), device)
    bf16 = spec["precision"] == "bf16"

    def precision() -> contextlib.AbstractContextManager[Any]:
        return torch.autocast(device.type, torch.bfloat16) if bf16 else contextlib.nullcontext()

    compiled = _compiled(model, mode)

    def whole(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad(set_to_none=True)
        with precision():
            loss: torch.Tensor = compiled(x, y)
        loss.backward()
        optimizer.step()
        return loss

    count = len(inputs)

    def reset() -> None:
        _reset(model, weights, optimizer)

    if mode == "gx":
        replay = _captured(whole, inputs, targets, reset)
    else:

        def replay(number: int) -> torch.Tensor:
            if mode == "reduce-overhead":
                torch.compiler.cudagraph_mark_step_begin()
            return whole(inputs[number % count], targets[number % count])

    for number in range(WARM_UPS):
        replay(number)
    reset()
    arm = TorchArm(replay, device)
    losses = []
    for number in range(spec["steps"]):
        losses.append(float(replay(number).detach()))
        arm.number += 1
    arm.told = {
        "losses": losses, "includes": _includes(spec, mode),
        "params": sum(p.numel() for p in model.parameters()),
    }  # fmt: skip
    return arm


def _on(device: torch.device, values: Any) -> torch.Tensor:
    found = torch.from_numpy(values)
    return (found if values.dtype.kind == "f" else found.long()).to(device)


def _compiled(model: torch.nn.Module, mode: str) -> Callable[..., torch.Tensor]:
    if mode == "eager":
        return model
    return torch.compile(model, mode="reduce-overhead" if mode == "reduce-overhead" else None)


def _optimizer(
    spec: Mapping[str, Any], parameters: list[Any], device: torch.device
) -> torch.optim.Optimizer:
    rate = spec["learning_rate"]
    if spec["optimizer"] == "sgd":
        return torch.optim.SGD(parameters, rate, fused=True)
    return torch.optim.AdamW(
        parameters, rate, betas=(spec["beta1"], spec["beta2"]), eps=spec["epsilon"],
        weight_decay=0.0, fused=True,
        # Step numbers on the device, which a graph needs and the others do without.
        capturable=device.type == "cuda" and spec["mode"] == "gx",
    )  # fmt: skip


def _captured(
    whole: Callable[[torch.Tensor, torch.Tensor], torch.Tensor], inputs: torch.Tensor,
    targets: torch.Tensor, reset: Callable[[], None],
) -> Step:  # fmt: skip
    """The whole step as one graph; a step copies its batch in, device to device."""
    x, y = inputs[0].clone(), targets[0].clone()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(WARM_UPS):
            whole(x, y)
    torch.cuda.current_stream().wait_stream(side)
    reset()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = whole(x, y)

    def replay(number: int) -> torch.Tensor:
        x.copy_(inputs[number % len(inputs)])
        y.copy_(targets[number % len(targets)])
        graph.replay()
        return loss

    return replay


@torch.no_grad()
def _reset(
    model: torch.nn.Module, weights: Mapping[str, torch.Tensor], optimizer: torch.optim.Optimizer
) -> None:
    """Initial weights and state, in place: a graph and a fused optimizer keep their addresses."""
    for name, parameter in model.named_parameters():
        parameter.copy_(weights[name])
    _zero_state(optimizer)


def _zero_state(optimizer: torch.optim.Optimizer) -> None:
    for state in optimizer.state.values():
        for value in state.values():
            if isinstance(value, torch.Tensor):
                value.zero_()


def _includes(spec: Mapping[str, Any], mode: str) -> str:
    optimizer = f"fused {'SGD' if spec['optimizer'] == 'sgd' else 'AdamW'}"
    how = {
        "eager": "batch by index, forward, loss, backward",
        "reduce-overhead": "batch by index; forward, loss and backward compiled, as CUDA graphs",
        "gx": "batch copied in, then one graph: compiled forward, loss and backward",
    }[mode]
    types = {"fp32": "float32", "tf32": "TF32", "bf16": "bfloat16 autocast"}[spec["precision"]]
    return f"torch {torch.__version__}: {how}, {optimizer}; {types}; no gradient norm"


# ---- the update alone ----


def _update(spec: Mapping[str, Any], device: torch.device) -> TorchArm:
    count, ema, mode = spec["count"], spec["ema"], spec["mode"]
    parameters, averages = [], []
    for value, gradient in drawn(count):
        parameter = torch.nn.Parameter(torch.from_numpy(value).to(device))
        parameter.grad = torch.from_numpy(gradient).to(device)
        parameters.append(parameter)
        averages += [parameter.detach().clone()] if ema else []
    optimizer = _optimizer(spec, parameters, device)
    weight = 1.0 - spec["ema_decay"]

    @torch.no_grad()
    def update() -> None:
        optimizer.step()
        if ema:
            torch._foreach_lerp_(averages, [p.detach() for p in parameters], weight)

    @torch.no_grad()
    def reset() -> None:
        for parameter, (value, _) in zip(parameters, drawn(count), strict=True):
            parameter.copy_(torch.from_numpy(value))
        for average, parameter in zip(averages, parameters, strict=ema):
            average.copy_(parameter)
        _zero_state(optimizer)

    run: Callable[[], object] = update
    for _ in range(WARM_UPS):
        update()
    if mode == "gx":
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            update()
        run = graph.replay
    reset()
    arm = TorchArm(lambda number: run(), device)
    for _ in range(spec["steps"]):
        arm.advance()
    arm.wait()
    watched = [parameters, averages] if ema else [parameters]
    arm.told["losses"] = [
        moved((t.detach().cpu().numpy() for t in tensors), count) for tensors in watched
    ]
    how = "one graph" if mode == "gx" else "eager"
    average = ", torch._foreach_lerp_ for the average" if ema else ""
    arm.told["includes"] = f"torch {torch.__version__}, {how}: fused AdamW{average}"
    return arm


if __name__ == "__main__":
    sys.exit(serve(open_arm))
