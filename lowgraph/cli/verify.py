"""`python -m lowgraph verify`: what must hold of a model's graphed step, gate by gate."""

from __future__ import annotations

import argparse
from dataclasses import fields

from lowgraph.train.arguments import add_data, add_device, add_model, add_optimizer, add_seed
from lowgraph.train.arguments_out import non_empty_path
from lowgraph.train.config import TrainConfig

__all__ = ["SUMMARY", "add_arguments", "run"]

SUMMARY = "hold a model's graphed training step against its eager one; exit 1 if a gate fails"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's flags."""
    add_device(parser)
    add_model(parser)
    parser.add_argument(
        "--steps", type=int, default=8, metavar="N", help="steps of each arm (default: 8)"
    )
    add_seed(parser)
    add_data(parser)
    parser.add_argument(
        "--json", type=non_empty_path, metavar="F", help="write the outcomes to this file"
    )

    add_optimizer(parser.add_argument_group("the optimizer of the step (AdamW; of the mlp SGD)"))


def run(given: argparse.Namespace) -> None:
    """Run the gates; raises GateFailed when one fails, ConfigError on bad flags."""
    # Here, so that `info`, which people run when something is missing, does not load the trainer.
    from lowgraph.train import verify

    known = {field.name for field in fields(TrainConfig)}
    config = TrainConfig(**{name: value for name, value in vars(given).items() if name in known})
    verify.run(config, lambda text: print(text, flush=True))
