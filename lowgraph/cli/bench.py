"""`python -m lowgraph bench`: step times beside what a user would pick instead, from a checkout."""

from __future__ import annotations

import argparse

from lowgraph.train.arguments import add_device
from lowgraph.train.arguments_out import non_empty_path

__all__ = ["SUMMARY", "add_arguments", "run"]

SUMMARY = "time steps against PyTorch, JAX and bare driver calls, interleaved on one device"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's flags."""
    parser.add_argument(
        "--suite",
        metavar="S",
        help="launch, train, or tail (the update behind the gradients) (default: all)",
    )
    add_device(parser)
    parser.add_argument(
        "--rows", default="", metavar="B1,B2t", help="rows of the suite by name (default: all)"
    )
    parser.add_argument(
        "--rounds", type=int, default=15, metavar="N", help="timed bursts of each arm (default: 15)"
    )
    parser.add_argument(
        "--burst-ms", type=float, default=40.0, metavar="T", help="length of a burst (default: 40)"
    )
    parser.add_argument(
        "--minutes",
        type=float,
        metavar="M",
        help="begin no row after that time (default: no limit)",
    )
    parser.add_argument(
        "--at-once",
        action="store_true",
        help="open the rivals of all rows first, side by side: faster, and needs memory for all",
    )
    parser.add_argument("--no-rivals", action="store_true", help="lowgraph's own arms only")
    parser.add_argument("--json", type=non_empty_path, metavar="F", help="write the rows to a file")
    parser.add_argument(
        "--plot",
        type=non_empty_path,
        metavar="DIR",
        help="draw bars.png and chain.png there; made if needed",
    )


def run(given: argparse.Namespace) -> None:
    """Measure; raises ConfigError on bad flags, LowgraphError when an arm of ours is wrong."""
    # Here, so that `info`, which people run when something is missing, does not load the trainer.
    from lowgraph.bench.config import BenchConfig
    from lowgraph.bench.run import run as measure

    config = BenchConfig(
        device=given.device,
        suite=given.suite,
        rows=tuple(name for name in given.rows.split(",") if name),
        json=given.json,
        plot=given.plot,
        rounds=given.rounds,
        burst_ms=given.burst_ms,
        rivals=not given.no_rivals,
        minutes=given.minutes,
        at_once=given.at_once,
    )
    measure(config, lambda text: print(text, flush=True))
