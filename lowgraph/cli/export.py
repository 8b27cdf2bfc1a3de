"""`python -m lowgraph export`: a checkpoint's weights as a folder that transformers reads."""

from __future__ import annotations

import argparse
from pathlib import Path

from lowgraph.errors import ConfigError
from lowgraph.train.arguments_out import non_empty_path

__all__ = ["SUMMARY", "add_arguments", "run"]

SUMMARY = "write a checkpoint's weights as a Hugging Face folder: config.json, model.safetensors"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "checkpoint",
        type=non_empty_path,
        metavar="CHECKPOINT",
        help="a folder of checkpoints, whose newest is taken, or one file of it",
    )
    parser.add_argument(
        "folder", type=non_empty_path, metavar="DIR", help="the folder to make; not there, or empty"
    )


def run(given: argparse.Namespace) -> None:
    """Write the folder whole, or raise ConfigError."""
    from lowgraph.models import huggingface
    from lowgraph.train import checkpoint

    huggingface.check_target(given.folder)
    try:
        found = checkpoint.read(given.checkpoint, resuming=False)
    except ConfigError as error:  # it speaks of the flag that it is read by elsewhere
        raise ConfigError(str(error).removeprefix("--resume ")) from error
    plan, folder = found.plan, Path(given.folder)
    huggingface.save(folder, plan.model, plan.shape, found.parameters)
    print(f"{plan.model} {plan.preset}, {found.step} steps done: written to {folder}")
