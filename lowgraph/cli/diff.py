"""`python -m lowgraph diff`: two captured graphs compared, and whether one can update the other."""

from __future__ import annotations

import argparse

from lowgraph.cli.outcome import write_text
from lowgraph.train.arguments_out import non_empty_path

__all__ = ["SUMMARY", "add_arguments", "run"]

SUMMARY = "compare two graphs' files, and tell what an update from one to the other would do"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    for name, text in (("old", "what an executable is made of"), ("new", "what it is updated to")):
        parser.add_argument(name, type=non_empty_path, metavar=f"{name.upper()}.json", help=text)
    parser.add_argument(
        "--json", type=non_empty_path, metavar="F", help="write the comparison to this file"
    )
    parser.add_argument(
        "--html", type=non_empty_path, metavar="F", help="write both as a page for a browser"
    )


def run(given: argparse.Namespace) -> None:
    """Print the comparison. Raises ConfigError for a bad file."""
    from lowgraph import debug
    from lowgraph.train.result import write_json

    old, new = debug.load(given.old), debug.load(given.new)
    found = debug.diff(old, new)
    for line in found.lines():
        print(line)
    if given.json is not None:
        write_json(given.json, found.as_dict())
        print(f"wrote {given.json}")
    if given.html is not None:
        write_text("--html", given.html, debug.diff_html(old, new, found))
