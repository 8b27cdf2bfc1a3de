"""What the host device costs: python benchmarks/host_device.py [--only PART ...] [--json FILE].

Each row has the wall-clock and the processor time (user and system, all threads) of one act, so
that a busy machine shows. The parts:
launch: one kernel of one thread, queued and run; a node of a replayed graph of 1 000 such kernels.
barrier: what one thread pays for one barrier, and for one warp shuffle.
step: one replayed training step of the presets nano and tiny.
build: the library and the kernels of one nano step from an empty cache, in a process of its own.
check: a step of nano plain and checked, a whole run under `python -m lowgraph check`. Only if it is
named: `--only check --json benchmarks/results/host/check_cost.json`, then tools/check_cost.py.
Goals on two cores: launch 5 us, graph node 1 us, step of nano 60 ms and of tiny 1 s, build 60 s.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from measure import CHAIN, ROOT, options, report

from lowgraph import driver
from lowgraph.capture import GraphStep
from lowgraph.hostdev import check, control
from lowgraph.kernels import Library
from lowgraph.memory import PersistentPool, upload
from lowgraph.train.config import TrainConfig
from lowgraph.train.data import read_corpus
from lowgraph.train.loop import Trainer
from lowgraph.train.plan import make_plan

Act = Callable[[], Any]
Row = dict[str, Any]
BARRIERS = Path(__file__).parent / "barriers.cu"
NODES = 1000
PLAIN_STEP = "step of nano, plain, one worker"
CHECKED_STEP = "step of nano, checked"
CHECKED_RUN = "check of two steps of nano and an evaluation"


def processor_seconds(who: int = resource.RUSAGE_SELF) -> float:
    """User and system seconds of all threads of this process, or of its ended children."""
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


def row(what: str, unit: str, scale: float, act: Act, share: int, rounds: int) -> Row:
    """Median and least of `rounds` calls of `act`, a `share`-th of each, after one uncounted."""
    act()
    walls, used = [], []
    for _ in range(rounds):
        begin, spent = time.perf_counter(), processor_seconds()
        act()
        walls.append((time.perf_counter() - begin) / share * scale)
        used.append((processor_seconds() - spent) / share * scale)
    figures = {"wall": statistics.median(walls), "wall_min": min(walls),
               "cpu": statistics.median(used), "cpu_min": min(used)}  # fmt: skip
    return {"what": what, "unit": unit, **{name: round(f, 3) for name, f in figures.items()}}


def process_row(what: str, command: list[str], environment: dict[str, str]) -> Row:
    """A process's seconds, and those of the processes that it starts."""
    begin, spent = time.perf_counter(), processor_seconds(resource.RUSAGE_CHILDREN)
    subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True)
    wall = time.perf_counter() - begin
    used = processor_seconds(resource.RUSAGE_CHILDREN) - spent
    return {"what": what, "unit": "s", "wall": round(wall, 1), "cpu": round(used, 1)}


class Bench:
    """A stream, a pool and kernels on the host device."""

    def __init__(self, device: driver.Device, rounds: int) -> None:
        self.device = device
        self.rounds = rounds
        self.stream = driver.stream.create()
        self.pool = PersistentPool(device)
        self.library = Library(device)

    def launch(self) -> Iterator[Row]:
        """A launch of one thread, by itself and as a node of a graph."""
        put, x = self.library.kernel(CHAIN, "put"), self.pool.take("x", 1)

        def chain(stream: int) -> None:
            for _ in range(NODES):
                put(stream, 1, 1, x, 1.0)

        given = {"device": self.device, "pool": self.pool, "stream": self.stream}
        step = GraphStep(chain, library=self.library, **given)
        for _ in range(2):
            step()
        yield row("launch", "us", 1e6, self._waited(lambda: chain(self.stream)), NODES, self.rounds)
        yield row("graph node", "us", 1e6, self._waited(step), NODES, self.rounds)
        step.close()

    def barrier(self) -> Iterator[Row]:
        """A barrier and a warp shuffle, for one of their threads, on one worker."""
        rounds, blocks, threads = 200, 8, 256
        y = self.pool.take("y", blocks * threads, np.int32)
        x = self.pool.take("x of barriers", blocks * threads, np.int32)
        upload(x, np.ones(blocks * threads, np.int32), self.stream)
        count = self.library.kernel(BARRIERS, "count_at_barriers")
        sums = self.library.kernel(BARRIERS, "sum_in_warps")
        acts = {
            "barrier": (lambda: count(self.stream, blocks, threads, y, rounds), 1),
            "shuffle": (lambda: sums(self.stream, blocks, threads, y, x, rounds), 5),
        }
        control.set_workers(1)
        for what, (act, times) in acts.items():
            share = rounds * blocks * threads * times
            yield row(f"{what}, one worker", "ns", 1e9, self._waited(act), share, self.rounds)
        control.set_workers(0)

    def step(self) -> Iterator[Row]:
        """A replayed training step of each preset that suits the host."""
        for preset in ("nano", "tiny"):
            yield self._step_of(preset, f"step of {preset}", min(self.rounds, 20))

    def check(self) -> Iterator[Row]:
        """What the check build costs: one worker in both, as it takes one."""
        control.set_workers(1)
        yield self._step_of("nano", PLAIN_STEP, min(self.rounds, 20))
        control.set_workers(0)
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "rows.json")
            command = [sys.executable, __file__, "--only", "checked", "--json", str(file)]
            subprocess.run(
                command, env={**environment, check.SWITCH: "1"}, check=True, capture_output=True
            )
            yield from json.loads(file.read_text(encoding="utf-8"))["rows"]
            script = [str(ROOT / "tests/hostdev/checks/training.py"), "nano", folder]
            command = [sys.executable, "-m", "lowgraph", "check", *script]
            process_row("compiles what the cache has not", command, environment)
            yield process_row(CHECKED_RUN, command, environment)

    def checked(self) -> Iterator[Row]:
        """The step in the check build, which the process has to be: what `check` starts."""
        if not check.enabled():
            raise SystemExit(f"checked: needs ${check.SWITCH}=1; --only check sets it")
        yield self._step_of("nano", CHECKED_STEP, 3)

    def _step_of(self, preset: str, what: str, rounds: int) -> Row:
        corpus = read_corpus(ROOT / "lowgraph" / "train")
        config = TrainConfig(preset=preset, device="host", data=ROOT / "lowgraph" / "train")
        plan = make_plan(config, "host")
        with Trainer(self.device, config, plan, corpus) as trainer:
            for _ in range(2):
                trainer.parts.advance()
            act = self._waited(trainer.parts.advance, trainer.parts.stream)
            return row(what, "ms", 1e3, act, 1, rounds)

    def build(self) -> Iterator[Row]:
        """The first use of a fresh installation, and the second."""
        config = 'TrainConfig(device="host", preset="nano", steps=3, heldout_batches=1)'
        code = f"from lowgraph.train import config, run; run.run(config.{config})"
        command = [sys.executable, "-c", code]
        with empty_cache() as environment:
            for what in ("build from an empty cache and 3 steps", "3 steps, all cached"):
                yield process_row(what, command, environment)

    def _waited(self, act: Act, stream: int | None = None) -> Act:
        """The act, and until none of its work is left."""

        def whole() -> None:
            act()
            driver.stream.synchronize(self.stream if stream is None else stream)

        return whole


@contextmanager
def empty_cache() -> Iterator[dict[str, str]]:
    """An environment whose build cache is empty."""
    with tempfile.TemporaryDirectory() as folder:
        yield {**os.environ, "LOWGRAPH_CACHE_DIR": folder, "PYTHONPATH": str(ROOT)}


def main() -> int:
    """Run the command line."""
    parser = options(__doc__ or "")
    parts = ("launch", "barrier", "step", "build")
    more = ("check", "checked")
    parser.set_defaults(device="host")
    parser.add_argument("--only", nargs="+", choices=(*parts, *more), default=parts, metavar="PART")
    parser.add_argument("--rounds", type=int, default=30)
    given = parser.parse_args()
    bench = Bench(driver.open_device(given.device), given.rounds)
    rows = [found for part in given.only for found in getattr(bench, part)()]
    report(bench.device, rows, given.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
