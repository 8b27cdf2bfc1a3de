"""`python -m lowgraph memory`: who holds the device's memory in a model's training step."""

from __future__ import annotations

import argparse

from lowgraph.cli.of_step import add_step, given_of_step
from lowgraph.train.arguments_out import non_empty_path
from lowgraph.train.config import TrainConfig

__all__ = ["SUMMARY", "add_arguments", "run"]

SUMMARY = "who holds the device's memory in a training step, and the pool's map"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's flags."""
    add_step(parser)
    parser.add_argument(
        "--map", action="store_true", help="print every slice and free block of the pool as well"
    )
    parser.add_argument(
        "--json", type=non_empty_path, metavar="F", help="write report and map to this file"
    )
    parser.add_argument(
        "--plot", type=non_empty_path, metavar="F.png", help="draw the pool's map to this file"
    )


def run(given: argparse.Namespace) -> None:
    """Record a step, report, and write what was asked for. Raises ConfigError on bad flags."""
    from lowgraph.memory import memory_report, pool_map
    from lowgraph.train import memory_picture, plot
    from lowgraph.train.recorded import recorded_parts
    from lowgraph.train.result import write_json

    if given.plot is not None:
        plot.require(given.plot)
    config = TrainConfig(**given_of_step(given), json=given.json, plot=given.plot)
    with recorded_parts(config, lambda text: print(text, flush=True)) as recorded:
        pool, plan = recorded.parts.pool, recorded.plan
        report, found = memory_report(pool), pool_map(pool)
    print(report.text(most=len(report.shares)))
    for line in found.lines() if given.map else [found.summary()]:
        print(line)
    if given.json is not None:
        about = {"device": recorded.device, "model": plan.model, "preset": plan.preset}
        write_json(given.json, {**about, **report.as_dict(), "map": found.as_dict()})
        print(f"wrote {given.json}")
    if given.plot is not None:
        title = f"{plan.model} {plan.preset} on {recorded.device}: the pool, its step recorded"
        memory_picture.draw(given.plot, title, found)
        print(f"wrote {given.plot}")
