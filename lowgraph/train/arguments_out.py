"""The trainer's flags for what comes out of a run."""

from __future__ import annotations

import argparse
from pathlib import Path

from lowgraph.train import weights_out

__all__ = ["add_looks", "add_outputs", "non_empty_path"]


def non_empty_path(text: str) -> Path:
    """A path; an empty text, which Path takes for the working folder, is a variable left unset."""
    if not text:
        raise argparse.ArgumentTypeError("the path is empty")
    return Path(text)


def add_outputs(group: argparse._ArgumentGroup) -> None:
    """Add the files that a run writes, and when."""
    group.add_argument(
        "--log-every",
        type=int,
        metavar="N",
        help="steps between progress lines (default: a twentieth of the run); one more at step 49, "
        "where the mean of the warm steps begins",
    )
    group.add_argument(
        "--eval-every",
        type=int,
        default=0,
        metavar="N",
        help="steps between held-out evaluations (default: 0, at the end only)",
    )
    group.add_argument(
        "--sample",
        type=int,
        default=0,
        metavar="N",
        help="bytes that a model of text generates at the end (default: 0)",
    )
    group.add_argument(
        "--temperature",
        type=float,
        default=0.8,
        metavar="T",
        help="divides the sample's logits (default: 0.8)",
    )
    group.add_argument(
        "--json", type=non_empty_path, metavar="F", help="write all figures to this file"
    )
    group.add_argument(
        "--plot",
        type=non_empty_path,
        metavar="F.png",
        help="draw train and held-out loss to this file",
    )
    group.add_argument(
        "--checkpoint",
        type=non_empty_path,
        metavar="DIR",
        help="write a checkpoint to this folder at the end; the one before is kept",
    )
    group.add_argument(
        "--checkpoint-every",
        type=int,
        default=0,
        metavar="N",
        help="and every N steps on the way (default: 0, at the end only)",
    )
    _add_weights(group)


def add_looks(group: argparse._ArgumentGroup) -> None:
    """Add what looks on at a run."""
    group.add_argument(
        "--log",
        type=non_empty_path,
        metavar="F.csv|DIR",
        help="add the figures of each progress line to a CSV file, or to a folder of TensorBoard's",
    )
    group.add_argument(
        "--timers",
        action="store_true",
        help="time the stages of the step on the device, in the graph too; waits once a line",
    )


def _add_weights(group: argparse._ActionsContainer) -> None:
    group.add_argument(
        "--export",
        type=non_empty_path,
        metavar="DIR",
        help="write the weights to this new folder at the end, as transformers reads them",
    )
    group.add_argument(
        "--weights-out",
        metavar="W",
        help="which weights held-out losses, sample and export are of: "
        f"{', '.join(weights_out.KINDS)} (default: ema, the average, with --ema; else plain)",
    )
