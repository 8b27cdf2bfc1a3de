"""`python -m lowgraph atlas`: where a model's step spends its launches, nodes and time."""

from __future__ import annotations

import argparse
from dataclasses import fields

from lowgraph.train.arguments import add_data, add_device, add_model, add_seed
from lowgraph.train.arguments_out import non_empty_path
from lowgraph.train.config import TrainConfig

__all__ = ["SUMMARY", "add_arguments", "run"]

SUMMARY = "launches, nodes and time of a training step by stage; `atlas summary` compares logs"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's flags, and those of `atlas summary`."""
    add_device(parser)
    add_model(parser)
    parser.add_argument(
        "--steps", type=int, default=30, metavar="N", help="of each measuring run (default: 30)"
    )
    parser.add_argument("--batch", type=int, metavar="B", help="windows a step (default: preset's)")
    add_seed(parser)
    add_data(parser)
    parser.add_argument("--no-graph", action="store_true", help="launch every kernel of every step")
    parser.add_argument(
        "--arms",
        metavar="A,B",
        help="parts to leave out, one and two at a time (default: all that the step has), or none",
    )
    parser.add_argument(
        "--nvtx", action="store_true", help="stages are ranges for NVIDIA's profilers"
    )
    parser.add_argument(
        "--tsv", type=non_empty_path, metavar="F", help="write a row a stage a step"
    )
    _add_outputs(parser)
    actions = parser.add_subparsers(metavar="summary", dest="action")
    text = "compare what --tsv or --json wrote: stages, and of JSON files kernels too"
    compare = actions.add_parser("summary", help=text, description=text)
    compare.add_argument("logs", nargs="+", type=non_empty_path, metavar="F", help="a file of them")
    _add_outputs(compare)


def _add_outputs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--json", type=non_empty_path, metavar="F", help="write all figures to this file"
    )
    parser.add_argument(
        "--plot", type=non_empty_path, metavar="F.png", help="draw a bar of stages to this file"
    )


def run(given: argparse.Namespace) -> None:
    """Measure a step, or compare logs; raises ConfigError on bad flags and files."""
    # Here, so that `info`, which people run when something is missing, does not load the trainer.
    from lowgraph.train.atlas import run as atlas

    def say(text: str) -> None:
        print(text, flush=True)

    if given.action == "summary":
        atlas.summary(given.logs, say, json=given.json, picture_to=given.plot)
        return
    # Every flag here is a field: one that `add_model` is given later is not left unread.
    names = {field.name for field in fields(TrainConfig)} & vars(given).keys()
    config = TrainConfig(**{name: getattr(given, name) for name in names}, graph=not given.no_graph)
    arms = None if given.arms is None else [name for name in given.arms.split(",") if name]
    arms = [] if arms == ["none"] else arms
    atlas.run(config, say, tsv=given.tsv, arms=arms, nvtx=given.nvtx)
