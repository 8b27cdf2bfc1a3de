"""Train a small byte-level language model; the whole training step is one CUDA graph launch.

    python examples/train_small.py                        # the device there is, its default size
    python examples/train_small.py --data my_texts/ --steps 1000 --sample 400
    python examples/train_small.py --help                 # all flags

It prints what it runs on, a progress line at each log step, the held-out loss beside that of a
bigram model of the same split, and the graph's report. Ctrl-C ends it early with all of that.
Bad input is one line and exit code 2.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from lowgraph.early import EndsAtOnce


def main(flags: Sequence[str] | None = None) -> int:
    with EndsAtOnce():  # on a Ctrl-C: the imports take a second
        from lowgraph.cli import exit_code
        from lowgraph.train import arguments
        from lowgraph.train.run import run

    return exit_code(lambda: run(arguments.parse(flags)))


if __name__ == "__main__":
    sys.exit(main())
