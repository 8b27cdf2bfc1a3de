"""`python -m lowgraph export`: a checkpoint's weights as a folder that transformers reads."""

from __future__ import annotations

import argparse
from pathlib import Path

from lowgraph.errors import ConfigError
from lowgraph.train import weights_out
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

    parser.add_argument(
        "--weights-out",
        choices=tuple(weights_out.KINDS),
        help="the weights themselves, or their average (default: as the run had it)",
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
    which = plan.schedule.weights_out(given.weights_out or found.config["weights_out"])
    huggingface.save(folder, plan.model, plan.shape, found.weights(which))
    of = f" ({weights_out.KINDS[which]})" if plan.schedule.averages else ""
    print(f"{plan.model} {plan.preset}, {found.step} steps done: written to {folder}{of}")
