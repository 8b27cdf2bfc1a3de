"""The flags of a command that records a model's training step."""

from __future__ import annotations

import argparse
from typing import Any

from lowgraph.train.arguments import add_data, add_model, add_seed

__all__ = ["add_step", "given_of_step"]

_FLAGS = ("device", "model", "preset", "precision", "data", "seed", "batch")


def add_step(parser: argparse.ArgumentParser) -> None:
    """Add them; each is None where it is left out."""
    parser.add_argument("--device", metavar="D", help="auto (default), host, cuda or cuda:N")
    add_model(parser)
    parser.add_argument("--batch", type=int, metavar="B", help="windows a step (default: preset's)")
    add_seed(parser)
    add_data(parser)


def given_of_step(given: argparse.Namespace) -> dict[str, Any]:
    """Those that were given, by their names in TrainConfig."""
    flags = {name: getattr(given, name) for name in _FLAGS}
    return {name: value for name, value in flags.items() if value is not None}
