"""Device time from gradients to parameters: python benchmarks/optimizer_costs.py.

For flat arenas of N parameters: the gradients' norm, AdamW with and without the average of the
weights and the bfloat16 copy, and one micro-batch's accumulation. Microseconds of a launch sequence
on the device's clock, and the bytes that its named reads and writes move, as GB/s of memory.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from measure import options, report, spread

from lowgraph import driver
from lowgraph.kernels import Library
from lowgraph.memory import Arena, PersistentPool
from lowgraph.ops import ControlBlock
from lowgraph.optim import Accumulation, AdamW, GradientNorm
from lowgraph.specs import TensorSpec

GPT2_SMALL = 124_439_808
ADAMW_BYTES = 4 * 7  # an element: reads param, m, v, grad; writes param, m, v

Part = tuple[Callable[[int], None], int]


class Setting:
    """Arenas of `elements` parameters, and everything that works on them."""

    def __init__(self, device: driver.Device, elements: int) -> None:
        self.stream = driver.stream.create()
        self.pool = pool = PersistentPool(device)
        library, stream = Library(device), self.stream
        self.parameters = Arena(pool, "parameters", [TensorSpec("all", (elements,))])
        self.gradients = self.parameters.like("gradients")
        for arena in (self.parameters, self.gradients):
            arena.zero(stream)
        self.control = ControlBlock(pool=pool, library=library, stream=stream, total_steps=1000,
                                    lr_max=1e-3, clip_norm=1.0, ema_decay=0.999)  # fmt: skip
        self.control.advance(stream)
        count = self.parameters.elements
        self.norm = GradientNorm(library, pool, count, stream)
        self.norm.measure(stream, self.gradients, self.control)
        self.total = Accumulation(library, self.gradients, 2)
        self.loss = pool.take("loss", 1)
        driver.memory.memset_d8_async(self.loss.address, 0, self.loss.nbytes, stream)
        self.shadow = pool.take("shadow", (count,), np.uint16)
        self.library = library

    def optimizer(self, **options: Any) -> AdamW:
        """One over the arenas; its state is given back by `close`."""
        made = AdamW(self.library, self.parameters, self.gradients, self.parameters.elements // 2,
                     self.stream, **options)  # fmt: skip
        made.parameters_loaded(self.stream)
        return made

    def parts(self) -> dict[str, Part]:
        """What is timed beside AdamW, and the bytes an element."""
        return {
            "norm": (lambda s: self.norm.measure(s, self.gradients, self.control), 4),
            "accumulate, first": (lambda s: self._add(s, 0), 8),
            "accumulate": (lambda s: self._add(s, 1), 12),
        }

    def _add(self, stream: int, index: int) -> None:
        self.total.add(stream, self.gradients, self.loss, index)

    def close(self) -> None:
        """Give everything back."""
        driver.stream.synchronize(self.stream)
        self.pool.close()
        driver.stream.destroy(self.stream)


def device_seconds(act: Callable[[int], None], stream: int, repeats: int) -> list[float]:
    """Seconds of each of `repeats` calls between two events, after one that is not counted."""
    begin, end = (driver.event.create(timing=True) for _ in range(2))
    act(stream)
    found = []
    for _ in range(repeats):
        driver.event.record(begin, stream)
        act(stream)
        driver.event.record(end, stream)
        driver.event.synchronize(end)
        found.append(driver.event.elapsed_ms(begin, end) / 1e3)
    for event in (begin, end):
        driver.event.destroy(event)
    return found


def row(what: str, part: Part, setting: Setting, repeats: int) -> dict[str, Any]:
    """The figures of one launch sequence."""
    act, bytes_each = part
    elements = setting.parameters.elements
    figures = spread(device_seconds(act, setting.stream, repeats))
    rate = round(elements * bytes_each / figures["median"] / 1e3, 1)
    return {"what": what, "elements": elements, "us": figures, "gb_per_s": rate}


def rows_of(setting: Setting, repeats: int) -> list[dict[str, Any]]:
    """All figures of one size."""
    rows = [row(what, part, setting, repeats) for what, part in setting.parts().items()]
    for ema in (False, True):
        for shadow in (False, True):
            name = "adamw" + ", average" * ema + ", bfloat16 copy" * shadow
            made = setting.optimizer(ema=ema, shadow=setting.shadow if shadow else None)
            bytes_each = ADAMW_BYTES + 8 * ema + 2 * shadow

            def step(stream: int, optimizer: AdamW = made) -> None:
                optimizer.step(stream, setting.control, setting.norm.stats)

            rows.append(row(name, (step, bytes_each), setting, repeats))
            made.close()
    return rows


def main() -> int:
    """Run the command line."""
    parser = options(__doc__ or "")
    parser.add_argument("--elements", type=int, nargs="+", default=[GPT2_SMALL], metavar="N")
    parser.add_argument("--repeats", type=int, default=50)
    given = parser.parse_args()
    device = driver.open_device(given.device)
    rows = []
    for elements in given.elements:
        setting = Setting(device, elements)
        rows += rows_of(setting, given.repeats)
        setting.close()
    report(device, rows, given.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
