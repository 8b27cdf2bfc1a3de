"""B7: AdamW over GPT-2 small's tensors, with and without the average of the weights."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from lowgraph import driver
from lowgraph.bench.timing import StepArm, graph_costs
from lowgraph.capture import GraphStep
from lowgraph.errors import LowgraphError
from lowgraph.kernels import Library
from lowgraph.memory import Arena, PersistentPool, download, upload
from lowgraph.ops import ControlBlock
from lowgraph.optim import AdamW, GradientNorm
from lowgraph.specs import TensorSpec

__all__ = [
    "COMPARED_STEPS",
    "EMA_DECAY",
    "LEARNING_RATE",
    "drawn",
    "moved",
    "open_update",
    "shapes",
]

COMPARED_STEPS = 3
LEARNING_RATE = 1e-3
EMA_DECAY = 0.9  # costs what 0.999 does, and moves the average by far more than its rounding

Array = npt.NDArray[np.float32]


def shapes(count: int) -> list[tuple[int, ...]]:
    """Tensors of `count` parameters, two of them; 0: those of GPT-2 small, 124 439 808."""
    if count:
        return [(count // 4, 3), (count - count // 4 * 3,)]
    width = 768
    block: list[tuple[int, ...]] = [
        (width,), (width,), (3 * width, width), (3 * width,), (width, width), (width,),
        (width,), (width,), (4 * width, width), (4 * width,), (width, 4 * width), (width,),
    ]  # fmt: skip
    return [(50257, width), (1024, width), *block * 12, (width,), (width,)]


def drawn(count: int) -> Iterator[tuple[Array, Array]]:
    """Parameters and gradients of each tensor, the same in every process."""
    generator = np.random.default_rng(0)
    for shape in shapes(count):
        yield (
            generator.random(shape, np.float32) - np.float32(0.5),
            generator.random(shape, np.float32) - np.float32(0.5),
        )


def moved(values: Iterator[Array], count: int) -> float:
    """Root mean square of how far tensors are from their initial values."""
    total, elements = 0.0, 0
    for value, (initial, _) in zip(values, drawn(count), strict=True):
        total += float(np.sum((value.astype(np.float64) - initial) ** 2))
        elements += initial.size
    return float(np.sqrt(total / elements))


def open_update(spec: Mapping[str, Any]) -> dict[str, StepArm]:
    """The arm of `spec`, whose `losses` are movements after COMPARED_STEPS steps."""
    device = driver.open_device(spec["device"])
    stream, pool, library = driver.stream.create(), PersistentPool(device), Library(device)
    count, ema = spec["count"], spec["ema"]
    specs = [TensorSpec(f"t{n}", shape) for n, shape in enumerate(shapes(count))]
    parameters = Arena(pool, "parameters", specs)
    gradients = parameters.like("gradients")
    for arena in (parameters, gradients):
        arena.zero(stream)
    for name, (value, gradient) in zip(parameters, drawn(count), strict=True):
        upload(parameters[name], value, stream)
        upload(gradients[name], gradient, stream)
    control = ControlBlock(
        pool=pool, library=library, stream=stream, total_steps=1_000_000, lr_max=LEARNING_RATE,
        lr_min=LEARNING_RATE, beta1=0.9, beta2=0.99, weight_decay=0.0, ema_decay=EMA_DECAY,
    )  # fmt: skip
    norm = GradientNorm(library, pool, parameters.elements, stream)
    norm.measure(stream, gradients, control)  # once: the gradients do not change
    optimizer = AdamW(library, parameters, gradients, 0, stream, ema=ema)
    optimizer.parameters_loaded(stream)

    def body(stream: int) -> None:
        control.advance(stream)
        optimizer.step(stream, control, norm.stats)

    step = GraphStep(body, device=device, pool=pool, library=library, stream=stream)
    step.prime()
    begin = time.perf_counter()
    step.capture()
    capture = round((time.perf_counter() - begin) * 1e6, 1)
    for _ in range(COMPARED_STEPS - 1):
        step()
    watched = [parameters] if optimizer.ema is None else [parameters, optimizer.ema]
    found = [moved((download(p, stream) for p in arena.values()), count) for arena in watched]
    report, graph = step.report(), step.graph
    if graph is None:
        raise LowgraphError(f"the step has no graph: {report.why_no_graph}")
    facts = {
        "losses": found, "nodes": report.nodes, "capture_us": capture, **graph_costs(graph),
        "memory_bytes": report.pool_bytes, "precision": "fp32",
        "includes": "step counter and rate, one AdamW launch over all tensors"
        + (" with the average of the weights in it" if ema else ""),
    }  # fmt: skip
    return {"lowgraph": StepArm(step, stream, facts, device.kind)}
