"""Busy time by PyTorch's profiler, which sees the work of a whole process, whoever launched it."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

__all__ = ["busy_time", "device_work", "trace", "traced"]

_DEVICE_WORK = ("kernel", "gpu_memcpy", "gpu_memset")


def traced(step: Callable[[], object], wait: Callable[[], object], steps: int) -> dict[str, Any]:
    """Run steps under the profiler; busy microseconds and device operations of one step.

    Where PyTorch is not there, or has no CUDA: `busy_us` None and `why`.
    """
    events, why = trace(step, wait, steps)
    busy, operations = busy_time(events)
    if not operations:
        return {"busy_us": None, "why": why or "the tracer saw no work of this process"}
    return {"busy_us": busy / steps, "device_ops": operations / steps}


def trace(
    step: Callable[[], object], wait: Callable[[], object], steps: int
) -> tuple[list[dict[str, Any]], str]:
    """Run steps under the profiler; the events of a Chrome trace, or none and why."""
    try:
        from torch import cuda
        from torch.profiler import ProfilerActivity, profile
    except ImportError as error:
        return [], f"tracing needs PyTorch: {error}"
    if not cuda.is_available():
        return [], "tracing needs a PyTorch with CUDA"
    cuda.init()
    wait()
    with profile(activities=[ProfilerActivity.CUDA]):  # the first one is still setting itself up
        step()
        wait()
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        for _ in range(steps):
            step()
        wait()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "trace.json")
        profiler.export_chrome_trace(str(file))
        return json.loads(file.read_text(encoding="utf-8"))["traceEvents"], ""


def device_work(events: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Kernels, copies and fills among the events of a Chrome trace, by their begin."""
    work = (e for e in events if e.get("ph") == "X" and e.get("cat") in _DEVICE_WORK)
    return sorted(work, key=lambda event: event["ts"])


def busy_time(events: Iterable[Mapping[str, Any]]) -> tuple[float, int]:
    """Microseconds in which at least one operation of a trace ran, and the operations.

    events: of a Chrome trace; work that overlaps counts once. Annotations are no work.
    """
    work = device_work(events)
    busy, reached = 0.0, float("-inf")
    for event in work:
        end = event["ts"] + event["dur"]
        busy += max(0.0, end - max(event["ts"], reached))
        reached = max(reached, end)
    return busy, len(work)
