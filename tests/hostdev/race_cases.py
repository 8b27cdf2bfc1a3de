"""Runs kernels in the check build and prints what was found; test_check_races*.py start it.

Checking is chosen before the host device is loaded, once a process: hence a process of its own.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from ctypes import c_int
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cuda.bindings import driver as cu

from lowgraph.driver import open_device
from tests.hostdev.driver.kit import Kit, must, pointer

KERNELS = Path(__file__).resolve().parent / "kernels"
FLOATS = 4096  # of y and x
WRONG, CLEAN = ("racy", "wrong"), "clean"


@dataclass(frozen=True)
class Case:
    """How a pair of kernels is launched; `arguments` of y, x and flags."""

    grid: int
    block: int = 64
    arguments: int = 2
    shared: int = 0


SHARED: Mapping[str, Case] = {
    **{name: Case(1) for name in (
        "mirror", "passes", "last_reader", "other_warp", "neighbour", "halves", "block_sum",
        "bytes", "global", "counter", "last_warp", "constructed", "ring")},
    "dynamic": Case(1, shared=256),
    "last_lane": Case(1, 32),
    "split": Case(1, arguments=1),
}  # fmt: skip
GLOBAL: Mapping[str, Case] = {
    **{name: Case(5) for name in ("sum", "vectors", "rows", "tile_then_global")},
    **{name: Case(5, arguments=3) for name in (
        "last_block", "barrier_fence", "fence_barrier", "scope", "chain", "lock", "total",
        "tally")},
    **{name: Case(5, arguments=1) for name in (
        "in_place", "same_value", "other_value", "bytes_between", "block_scope")},
    "fence_warp": Case(5, 32, arguments=3),
}  # fmt: skip
BARRIERS: Mapping[str, Case] = {
    **{name: Case(2) for name in ("branches", "early_return", "returned", "unnamed")},
    **{name: Case(2, arguments=1) for name in (
        "counts", "stuck", "left_out", "barrier_first", "outside", "crossed",
        "deserted")},
}  # fmt: skip
FILES: Mapping[str, Mapping[str, Case]] = {
    "races_shared": SHARED,
    "races_global": GLOBAL,
    "races_barriers": BARRIERS,
}


def line_of(file: str, mark: str) -> int:
    """Return the line with the comment `// mark`."""
    lines = (KERNELS / f"{file}.cu").read_text().splitlines()
    (found,) = [n for n, line in enumerate(lines, 1) if f"// {mark}" in line]
    return found


def _found(kit: Kit) -> list[dict[str, Any]]:
    from lowgraph.hostdev import check, control

    must(cu.cuCtxSynchronize())
    found = [finding.as_dict() for finding in check.findings()]
    check.forget()
    assert control.fault_text() == "", control.fault_text()
    return found


def run_file(file: str) -> dict[str, list[dict[str, Any]]]:
    """Launch every kernel of the file's cases; the findings by kernel."""
    device = open_device("host")
    kit = Kit(device, device.compile(KERNELS / f"{file}.cu", [], {}))
    results = _smooth(kit) if file == "races_global" else {}
    for name, case in FILES[file].items():
        wrong = WRONG[file == "races_barriers"]
        for kernel in (f"{name}_{wrong}", f"{name}_{CLEAN}"):
            buffers = [kit.put([0.0] * FLOATS) for _ in range(3)][: case.arguments]
            values = [pointer(buffer) for buffer in buffers]
            code = kit.launch(kernel, *values, grid=case.grid, block=case.block, shared=case.shared)
            assert code == 0, (kernel, code)
            results[kernel] = _found(kit)
    kit.close()
    return results


def _smooth(kit: Kit) -> dict[str, list[dict[str, Any]]]:
    """The kernel that is right unless its output is its input."""
    y, x = kit.put([0.0] * FLOATS), kit.put([0.0] * FLOATS)
    results = {}
    for name, source in (("smooth_racy", y), ("smooth_clean", x)):
        values = (pointer(y), pointer(source), c_int(320))
        assert kit.launch("smooth", *values, grid=5, block=64) == 0
        results[name] = _found(kit)
    return results


if __name__ == "__main__":
    json.dump({file: run_file(file) for file in sys.argv[1:]}, sys.stdout)
