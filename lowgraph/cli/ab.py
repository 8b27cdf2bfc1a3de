"""`python -m lowgraph ab`: a model's step graphed against ungraphed, with one instrument."""

from __future__ import annotations

import argparse
from dataclasses import fields

from lowgraph.train.arguments import add_data, add_device, add_model, add_seed
from lowgraph.train.arguments_out import non_empty_path
from lowgraph.train.config import TrainConfig

__all__ = ["SUMMARY", "add_arguments", "run"]

SUMMARY = (
    "time a training step graphed and ungraphed, and compare the losses; exit 1 if they differ"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's flags."""
    add_device(parser)
    add_model(parser)
    parser.add_argument(
        "--steps", type=int, default=500, metavar="N", help="steps of each arm (default: 500)"
    )
    add_seed(parser)
    add_data(parser)
    parser.add_argument(
        "--json", type=non_empty_path, metavar="F", help="write all figures to this file"
    )
    parser.add_argument(
        "--plot", type=non_empty_path, metavar="F.png", help="draw both losses to this file"
    )


def run(given: argparse.Namespace) -> None:
    """Measure; raises GateFailed when the arms differ, ConfigError on bad flags."""
    from lowgraph.train import ab

    # Every flag here is a field: one that `add_model` is given later is not left unread.
    names = {field.name for field in fields(TrainConfig)} & vars(given).keys()
    config = TrainConfig(**{name: getattr(given, name) for name in names})
    ab.run(config, lambda text: print(text, flush=True))
