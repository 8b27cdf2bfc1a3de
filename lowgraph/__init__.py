"""lowgraph: a training step written in raw CUDA C as one CUDA graph launch.

The names below are loaded on first use, so that ``import lowgraph`` needs no GPU, no driver and
no CuPy, and costs next to nothing:

* `open_device`: a device, ``"auto"``, ``"host"``, ``"cuda"`` or ``"cuda:N"``.
* `Library`, `Kernel`: `.cu` files compiled and loaded once, called with checked arguments.
* `PersistentPool`, `Slice`: memory whose addresses never move.
* `Blas`: single-precision matrix products on a preallocated workspace.
* `GraphStep`, `StepReport`: a step primed, recorded and replayed as one graph, and its report.
* `ShapeKeyedSteps`: a step for each shape, in a cache with a budget of graphs and bytes.
* `CFunction`, `include_dir`: functions of a C library that enqueue on our stream, and lowgraph.h.
* `stage`, `arm`: name a part of a step, for what is said of its launches; an arm can be left out.
* `LowgraphError`: the base of everything raised here (all of them: `lowgraph.errors`).
"""

from __future__ import annotations

from importlib import import_module

from lowgraph._version import VERSION as __version__

TYPE_CHECKING = False  # typing's own would cost a command more than all that is imported here
if TYPE_CHECKING:
    from typing import Any

    from lowgraph.blas import Blas
    from lowgraph.capture import CFunction, GraphStep, ShapeKeyedSteps, StepReport, include_dir
    from lowgraph.driver import Device, open_device
    from lowgraph.errors import LowgraphError
    from lowgraph.kernels import Kernel, Library
    from lowgraph.memory import PersistentPool, Slice
    from lowgraph.stages import arm, stage

_HOMES = {
    "Blas": "lowgraph.blas",
    "CFunction": "lowgraph.capture",
    "Device": "lowgraph.driver",
    "GraphStep": "lowgraph.capture",
    "Kernel": "lowgraph.kernels",
    "Library": "lowgraph.kernels",
    "LowgraphError": "lowgraph.errors",
    "PersistentPool": "lowgraph.memory",
    "ShapeKeyedSteps": "lowgraph.capture",
    "Slice": "lowgraph.memory",
    "StepReport": "lowgraph.capture",
    "arm": "lowgraph.stages",
    "include_dir": "lowgraph.capture",
    "open_device": "lowgraph.driver",
    "stage": "lowgraph.stages",
}

__all__ = [
    "Blas",
    "CFunction",
    "Device",
    "GraphStep",
    "Kernel",
    "Library",
    "LowgraphError",
    "PersistentPool",
    "ShapeKeyedSteps",
    "Slice",
    "StepReport",
    "__version__",
    "arm",
    "include_dir",
    "open_device",
    "stage",
]


def __getattr__(name: str) -> Any:
    """Load a public name from its home module on first use."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'lowgraph' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Names of the module, those not loaded yet included."""
    return sorted({*globals(), *_HOMES})
