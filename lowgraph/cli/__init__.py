"""`python -m lowgraph`: caches, gates, A/B, atlas, graphs, memory, weights, checks, doctor."""

from __future__ import annotations

from collections.abc import Sequence

from lowgraph._version import VERSION
from lowgraph.cli import (
    ab,
    atlas,
    audit,
    bench,
    cache,
    check,
    compile,
    diff,
    doctor,
    export,
    host_library,
    include,
    info,
    memory,
    show,
    verify,
)
from lowgraph.cli.outcome import NOBODY_READS, exit_code
from lowgraph.train.arguments import OneLineParser

__all__ = ["NOBODY_READS", "exit_code", "main"]

_DESCRIPTION = "Training steps as one CUDA graph launch: look into them, check them, measure them."
_EPILOG = "To train: python examples/train_small.py --help, in a checkout."

COMMANDS = {
    "info": info,
    "cache": cache,
    "compile": compile,
    "host-library": host_library,
    "include": include,
    "verify": verify,
    "ab": ab,
    "atlas": atlas,
    "export": export,
    "check": check,
    "doctor": doctor,
    "bench": bench,
    "show": show,
    "memory": memory,
    "audit": audit,
    "diff": diff,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command with the given arguments (None: the process's); returns the exit code."""
    return exit_code(lambda: _run(arguments))


def _run(arguments: Sequence[str] | None) -> None:
    parser = OneLineParser(
        prog="lowgraph", description=_DESCRIPTION, epilog=_EPILOG, allow_abbrev=False
    )
    parser.add_argument("--version", action="version", version=f"lowgraph {VERSION}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND", dest="command")
    for name, module in COMMANDS.items():
        command = commands.add_parser(name, help=module.SUMMARY, description=module.SUMMARY)
        module.add_arguments(command)
        command.set_defaults(run=module.run)
    given = parser.parse_args(arguments)
    given.run(given)
