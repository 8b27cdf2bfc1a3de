"""What the cases share: a device with kernels, pool and stream, and how a case is run and printed.

Each case is a script beside this one: `python examples/debugging/NAME.py [--fixed] [--device D]`.
It makes one mistake and prints what lowgraph says to it; with --fixed it is the mended program.
docs/debugging.md tells of each.
"""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from lowgraph import GraphStep, Library, PersistentPool, driver, open_device
from lowgraph.cli import exit_code
from lowgraph.errors import AuditFailed
from lowgraph.kernels import Kernel
from lowgraph.memory import Slice, download, upload

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
N, GRID, BLOCK = 1000, 4, 256


def say(text: object) -> None:
    """Print wrapped, with paths as seen from the checkout."""
    for line in str(text).replace(f"{ROOT}/", "").splitlines():
        print(textwrap.fill(line, 100, break_long_words=False, break_on_hyphens=False))


class Case:
    """A device, and what a step needs on it. stream: a handle, of a non-blocking stream."""

    def __init__(self, spec: str) -> None:
        self.device = open_device(spec)
        self.library, self.pool = Library(self.device), PersistentPool(self.device)
        self.stream = driver.stream.create()

    def kernel(self, name: str) -> Kernel:
        """A kernel of kernels.cu."""
        return self.library.kernel(HERE / "kernels.cu", name)

    def filled(self, name: str, value: float) -> Slice:
        """A slice of N floats, each `value`."""
        piece = self.pool.take(name, N)
        upload(piece, np.full(N, value, np.float32), self.stream)
        return piece

    def step(self, body: Callable[[int], object], **options: Any) -> GraphStep:
        """A step over a body; each refusal is printed once."""
        return GraphStep(
            body, device=self.device, pool=self.pool, library=self.library, stream=self.stream,
            say=say, **options,
        )  # fmt: skip

    def show(self, step: GraphStep, piece: Slice | None) -> None:
        """Print how the steps ran and the first element that they computed, if it is defined."""
        report = step.report()
        said = f"steps without a graph: {report.eager_steps}, replayed: {report.replays}"
        if piece is not None:
            said += f"; {piece.name}[0] = {download(piece, self.stream)[0]:.4f}"
        say(said)


def run(case: Callable[[Case, bool], None]) -> None:
    """The script's command line; exit code 0 also when lowgraph names the mistake."""
    doc = sys.modules[case.__module__].__doc__ or ""
    parser = argparse.ArgumentParser(description=doc.partition("\n")[0])
    parser.add_argument("--fixed", action="store_true", help="run the mended program")
    parser.add_argument("--device", default="auto", help="auto (default), host, cuda or cuda:N")
    given = parser.parse_args()

    def work() -> None:
        made = Case(given.device)
        print(f"device: {made.device.spec}, {made.device.title}")
        try:
            case(made, given.fixed)
        except AuditFailed as error:
            say(f"AuditFailed: {error}")

    sys.exit(exit_code(work))
