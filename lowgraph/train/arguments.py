"""The trainer's command line: flags in, a checked TrainConfig out."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from typing import Any, NoReturn

from lowgraph.errors import ConfigError
from lowgraph.models.registry import DEFAULT_MODEL, MODELS
from lowgraph.ops.control import SCHEDULES
from lowgraph.precision import Precision
from lowgraph.train.arguments_out import add_looks, add_outputs, non_empty_path
from lowgraph.train.config import DEFAULT_PRECISION, ONE_BATCH, TrainConfig

__all__ = [
    "OneLineParser",
    "add_data",
    "add_device",
    "add_model",
    "add_optimizer",
    "add_seed",
    "parse",
]


class OneLineParser(argparse.ArgumentParser):
    """Says what is wrong in one line (argparse adds the usage, which buries it)."""

    def error(self, message: str) -> NoReturn:
        """Raise ConfigError instead of printing and exiting."""
        raise ConfigError(f"{message} (see --help)")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """As argparse's, but it takes what stands behind a flag that is none for an action."""
        choices = action.choices or ()
        optional = isinstance(action, argparse._SubParsersAction) and not action.required
        if optional and value not in choices:
            names = ", ".join(map(str, choices))
            raise argparse.ArgumentError(
                None, f"{value!r} is no value of a flag of {self.prog}, nor {names}"
            )
        super()._check_value(action, value)


def parse(arguments: Sequence[str] | None = None) -> TrainConfig:
    """Read the flags (default: those of the process). Raises ConfigError on bad ones."""
    parser = _build()
    given = vars(parser.parse_args(arguments))
    given["graph"] = not given.pop("no_graph")
    return TrainConfig(**given)


def add_device(group: argparse._ActionsContainer) -> None:
    """Add --device."""
    group.add_argument(
        "--device", default="auto", metavar="D", help="auto (default), host, cuda or cuda:N"
    )


def add_seed(group: argparse._ActionsContainer, drawn: str = "weights and batches") -> None:
    """Add --seed; `drawn` says what it decides."""
    group.add_argument("--seed", type=int, metavar="S", help=f"of {drawn} (default: 0)")


def add_model(group: argparse._ActionsContainer) -> None:
    """Add --model and --preset, with the names that the registry has, and --precision."""
    about = "; ".join(f"{name}: {entry.about}" for name, entry in MODELS.items())
    group.add_argument("--model", metavar="M", help=f"{about} (default: {DEFAULT_MODEL})")
    sizes = "; ".join(
        f"{name}: {', '.join(entry.presets)} (default: {entry.default_presets['host']} on the "
        f"host, {entry.default_presets['cuda']} on a GPU)"
        for name, entry in MODELS.items()
    )
    group.add_argument("--preset", metavar="P", help=f"size of the model; of {sizes}")
    group.add_argument(
        "--precision",
        metavar="P",
        help=f"of matrix products: {', '.join(map(str, Precision))} (default: {DEFAULT_PRECISION}; "
        "parameters and sums are float32 in each)",
    )


def add_data(group: argparse._ActionsContainer) -> None:
    """Add --data, with what every kind of model takes."""
    text, series, classes = (_models_of(kind) for kind in ("text", "series", "classes"))
    group.add_argument(
        "--data",
        type=non_empty_path,
        metavar="PATH",
        help=f"for {text}: a file or a folder of text (default: the sources of this Python's "
        f"standard library); for {series}: FILE.csv with a header, or FILE.npy; a row is features "
        "and a label 0 or 1, in the column named label, else the last (default: a recording that "
        f"comes with matplotlib); for {classes}: the same files, with a class from 0 as the label "
        "(default: a drawn set)",
    )


def _one_batch(text: str) -> int:
    """A number of windows; of several numbers it is said why they cannot be."""
    try:
        return int(text)
    except ValueError:
        several = re.fullmatch(r"\d+(\s*([,:;-]|\.\.)\s*\d+)+", text)
        what = f"{text!r} is more than one size: {ONE_BATCH}"
        raise argparse.ArgumentTypeError(
            what if several else f"invalid int value: {text!r}"
        ) from None


def _models_of(data: str) -> str:
    return ", ".join(name for name, entry in MODELS.items() if entry.data == data)


def _build() -> argparse.ArgumentParser:
    parser = OneLineParser(
        description="Train a small model; the whole step is one CUDA graph.",
        epilog="A first Ctrl-C ends the run cleanly: the step is finished, report and files are "
        'written, the exit code is 0 and the JSON has "interrupted": true. A second one stops at '
        "once.",
        allow_abbrev=False,
    )
    _add_run(parser.add_argument_group("the run"))
    add_optimizer(parser.add_argument_group("the optimizer (AdamW; of the mlp SGD)"))
    outputs = parser.add_argument_group("what comes out")
    add_outputs(outputs)
    add_looks(outputs)
    return parser


# argparse._ArgumentGroup has no public name; a parser and a group offer the same add_argument.
def _add_run(group: argparse._ArgumentGroup) -> None:
    add_device(group)
    add_model(group)
    group.add_argument(
        "--steps", type=int, metavar="N", help="steps in all (default: the preset's)"
    )
    group.add_argument(
        "--batch", type=_one_batch, metavar="B", help="windows a step (default: the preset's)"
    )
    add_data(group)
    add_seed(group, "weights, batches and samples")
    group.add_argument("--no-graph", action="store_true", help="launch every kernel of every step")
    group.add_argument(
        "--resume",
        type=non_empty_path,
        metavar="DIR",
        help="go on from the newest checkpoint in this folder, or from this file",
    )
    group.add_argument(
        "--weights",
        type=non_empty_path,
        metavar="DIR",
        help="begin with the weights of this Hugging Face folder (GPT-2 or Mamba-2)",
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
        help="keep an average of the weights (default: 0, none)",
    )
    group.add_argument(
        "--accumulate",
        type=int,
        metavar="N",
        help="micro-batches of a step, each of --batch windows; the step is that of one batch of "
        "N times as many (default: 1)",
    )
