"""`python -m lowgraph COMMAND`, and the command `lowgraph`."""

from __future__ import annotations

import sys

from lowgraph.early import EndsAtOnce

__all__ = ["main"]


def main() -> int:
    """Run the process's command; returns its exit code."""
    with EndsAtOnce():  # on a Ctrl-C: the imports take a second
        from lowgraph import cli

    return cli.main()


if __name__ == "__main__":
    sys.exit(main())
