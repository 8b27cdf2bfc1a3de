"""The trainer's command line: flags in, a checked TrainConfig out."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from lowgraph.errors import ConfigError
from lowgraph.models.registry import DEFAULT_MODEL, MODELS
from lowgraph.ops.control import SCHEDULES
from lowgraph.train.config import TrainConfig

__all__ = ["OneLineParser", "add_model", "add_optimizer", "non_empty_path", "parse"]


class OneLineParser(argparse.ArgumentParser):
    """Says what is wrong in one line (argparse adds the usage, which buries it)."""

    def error(self, message: str) -> NoReturn:
        """Raise ConfigError instead of printing and exiting."""
        raise ConfigError(f"{message} (see --help)")


def parse(arguments: Sequence[str] | None = None) -> TrainConfig:
    """Read the flags (default: those of the process). Raises ConfigError on bad ones."""
    parser = _build()
    given = vars(parser.parse_args(arguments))
    given["graph"] = not given.pop("no_graph")
    return TrainConfig(**given)


def non_empty_path(text: str) -> Path:
    """A path; an empty text, which Path takes for the working folder, is a variable left unset."""
    if not text:
        raise argparse.ArgumentTypeError("the path is empty")
    return Path(text)


def add_model(group: argparse._ActionsContainer) -> None:
    """Add --model and --preset, with the names that the registry has."""
    group.add_argument(
        "--model", metavar="M", help=f"model: {', '.join(MODELS)} (default: {DEFAULT_MODEL})"
    )
    sizes = "; ".join(
        f"{name}: {', '.join(entry.presets)} (default: {entry.default_presets['host']} on the "
        f"host, {entry.default_presets['cuda']} on a GPU)"
        for name, entry in MODELS.items()
    )
    group.add_argument("--preset", metavar="P", help=f"size of the model; of {sizes}")


def _build() -> argparse.ArgumentParser:
    parser = OneLineParser(
        description="Train a small model; the whole step is one CUDA graph.",
        epilog="A first Ctrl-C ends the run cleanly: the step is finished, report and files are "
        'written, the exit code is 0 and the JSON has "interrupted": true. A second one stops at '
        "once.",
        allow_abbrev=False,
    )
    _add_run(parser.add_argument_group("the run"))
    add_optimizer(parser.add_argument_group("the optimizer (AdamW)"))
    _add_outputs(parser.add_argument_group("what comes out"))
    return parser


# argparse._ArgumentGroup has no public name; a parser and a group offer the same add_argument.
def _add_run(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--device", default="auto", metavar="D", help="auto (default), host, cuda or cuda:N"
    )
    add_model(group)
    group.add_argument(
        "--steps", type=int, metavar="N", help="steps in all (default: the preset's)"
    )
    group.add_argument(
        "--batch", type=int, metavar="B", help="windows a step (default: the preset's)"
    )
    group.add_argument(
        "--data",
        type=non_empty_path,
        metavar="PATH",
        help="a file or a folder of text (default: the sources of this Python's standard library)",
    )
    group.add_argument(
        "--seed", type=int, metavar="S", help="of weights, batches and samples (default: 0)"
    )
    group.add_argument("--no-graph", action="store_true", help="launch every kernel of every step")
    group.add_argument(
        "--resume",
        type=non_empty_path,
        metavar="DIR",
        help="go on from the newest checkpoint in this folder, or from this file",
    )


def add_optimizer(group: argparse._ArgumentGroup) -> None:
    """Add the flags of the step's update and of its learning rate."""
    group.add_argument(
        "--lr",
        dest="learning_rate",
        type=float,
        metavar="R",
        help="peak learning rate (default: the preset's)",
    )
    group.add_argument(
        "--warmup",
        type=int,
        metavar="N",
        help="steps of linear warm-up (default: a tenth of the run, at most 100)",
    )
    group.add_argument(
        "--weight-decay",
        type=float,
        metavar="W",
        help="of weights and embeddings; biases and norms do not decay (default: 0.1)",
    )
    group.add_argument(
        "--schedule",
        metavar="NAME",
        help=f"learning rate after the warm-up: {', '.join(SCHEDULES)} (default: {SCHEDULES[0]})",
    )
    group.add_argument(
        "--final-share",
        type=float,
        metavar="S",
        help="of the peak, where a cosine or a linear schedule ends (default: 0.1)",
    )
    group.add_argument(
        "--clip",
        dest="clip_norm",
        type=float,
        metavar="C",
        help="scale gradients of a greater global norm down to it (default: 0, never)",
    )
    group.add_argument(
        "--ema",
        dest="ema_decay",
        type=float,
        metavar="DECAY",
        help="keep an average of the weights and evaluate it too (default: 0, none)",
    )
    group.add_argument(
        "--accumulate",
        type=int,
        metavar="N",
        help="micro-batches of a step, each of --batch windows; the step is that of one batch of "
        "N times as many (default: 1)",
    )


def _add_outputs(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--log-every",
        type=int,
        metavar="N",
        help="steps between progress lines (default: a twentieth of the run)",
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
        help="bytes to generate at the end (default: 0)",
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
