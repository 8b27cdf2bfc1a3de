"""`python -m lowgraph audit`: stale pointers and races of a captured graph that was kept."""

from __future__ import annotations

import argparse

from lowgraph.errors import AuditFailed
from lowgraph.train.arguments_out import non_empty_path

__all__ = ["SUMMARY", "add_arguments", "run"]

SUMMARY = "check a graph's file for stale pointers and races; exit 1 if there are any"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "graph", type=non_empty_path, metavar="GRAPH.json", help="a file of `show --json`"
    )
    parser.add_argument(
        "--json", type=non_empty_path, metavar="F", help="write the findings to this file"
    )


def run(given: argparse.Namespace) -> None:
    """Print the audit. Raises AuditFailed with findings, ConfigError for a bad file."""
    from lowgraph import debug
    from lowgraph.train.result import write_json

    report = debug.report_of(debug.load(given.graph))
    for line in report.lines():
        print(line)
    if given.json is not None:
        write_json(given.json, report.as_dict())
        print(f"wrote {given.json}")
    if report.findings:
        raise AuditFailed(report.findings)
