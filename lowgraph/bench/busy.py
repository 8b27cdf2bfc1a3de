"""Busy time by PyTorch's profiler, which sees the work of a whole process, whoever launched it."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

__all__ = ["busy_time", "traced"]

_DEVICE_WORK = ("kernel", "gpu_memcpy", "gpu_memset")


def traced(step: Callable[[], object], wait: Callable[[], object], steps: int) -> dict[str, Any]:
    """Run steps under the profiler; busy microseconds and device operations of one step.

    Where PyTorch is not there, or has no CUDA: `busy_us` None and `why`.
    """
    try:
        from torch import cuda
        from torch.profiler import ProfilerActivity, profile
    except ImportError as error:
        return {"busy_us": None, "why": f"tracing needs PyTorch: {error}"}
    if not cuda.is_available():
        return {"busy_us": None, "why": "tracing needs a PyTorch with CUDA"}
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
        events = json.loads(file.read_text(encoding="utf-8"))["traceEvents"]
    busy, operations = busy_time(events)
    if not operations:
        return {"busy_us": None, "why": "the tracer saw no work of this process"}
    return {"busy_us": busy / steps, "device_ops": operations / steps}


def busy_time(events: Iterable[Mapping[str, Any]]) -> tuple[float, int]:
    """Microseconds in which at least one operation of a trace ran, and the operations.

    events: of a Chrome trace; work that overlaps counts once. Annotations are no work.
    """
    work = sorted(
        (event["ts"], event["ts"] + event["dur"])
        for event in events
        if event.get("ph") == "X" and event.get("cat") in _DEVICE_WORK
    )
    busy, reached = 0.0, float("-inf")
    for begin, end in work:
        busy += max(0.0, end - max(begin, reached))
        reached = max(reached, end)
    return busy, len(work)
