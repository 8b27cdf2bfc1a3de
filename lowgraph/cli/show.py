"""`python -m lowgraph show`: a captured graph's nodes, arguments and memory by their names."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from lowgraph.cli.of_step import add_step, given_of_step
from lowgraph.cli.outcome import write_text
from lowgraph.errors import ConfigError
from lowgraph.train.arguments_out import non_empty_path
from lowgraph.train.checks import check_folder
from lowgraph.train.config import TrainConfig

if TYPE_CHECKING:
    from lowgraph.debug import Form

__all__ = ["SUMMARY", "add_arguments", "run"]

SUMMARY = "show a captured graph, from its file or of a model's training step"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's flags."""
    parser.add_argument(
        "graph",
        nargs="?",
        type=non_empty_path,
        metavar="GRAPH.json",
        help="a file that --json wrote (default: record the training step of --model)",
    )
    add_step(parser)
    parser.add_argument(
        "--json", type=non_empty_path, metavar="F", help="write the graph to this file"
    )
    parser.add_argument(
        "--dot", type=non_empty_path, metavar="F", help="write it as a picture for Graphviz"
    )
    parser.add_argument(
        "--html", type=non_empty_path, metavar="F", help="write it as a page for a browser"
    )
    parser.add_argument(
        "--times",
        type=non_empty_path,
        metavar="LOG",
        help="for --html: stage times of the same step, a file of `atlas --json` or `--tsv`",
    )


def run(given: argparse.Namespace) -> None:
    """Print the graph, and write what was asked for. Raises ConfigError on bad flags and files."""
    from lowgraph import debug
    from lowgraph.train.result import write_json

    if given.times is not None and given.html is None:
        raise ConfigError(f"--times {given.times} is shown in a page; name its file with --html")
    own_us = None if given.times is None else _own_us(given.times)
    flags = given_of_step(given)
    if given.graph is not None and flags:
        raise ConfigError(
            f"--{min(flags)} is of a step to record, and {given.graph} is read; leave one of them"
        )
    for label in ("json", "dot", "html"):
        path = getattr(given, label)
        if path is not None:
            check_folder(label, path, path.absolute().parent)
    form = _recorded(TrainConfig(**flags)) if given.graph is None else debug.load(given.graph)
    for line in debug.lines(form):
        print(line)
    if given.json is not None:
        write_json(given.json, debug.as_dict(form))
        print(f"wrote {given.json}")
    if given.dot is not None:
        write_text("--dot", given.dot, debug.dot(form))
    if given.html is not None:
        write_text("--html", given.html, debug.html(form, own_us))


def _own_us(log: Path) -> dict[str, float]:
    """Microseconds by stage, without the stages inside of it. Raises ConfigError."""
    from lowgraph.train.atlas.saved import read_saved

    return {stage.stage: stage.own_us for stage in read_saved(log).stages}


def _recorded(config: TrainConfig) -> Form:
    """The graph of a model's training step, behind two steps. Raises LowgraphError."""
    from lowgraph import debug
    from lowgraph.train.recorded import recorded_parts

    with recorded_parts(config, lambda text: print(text, flush=True)) as recorded:
        return debug.read(recorded.parts.graph_step)
