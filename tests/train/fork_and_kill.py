"""Writers of checkpoints killed at random moments: FOLDER ROUNDS SEED. A script, for it forks.

Each child writes one checkpoint after the other until it is killed. After each kill the folder
must hold a whole one, no older than what was found before. Prints how many kills left a temporary
file, and how many came between the two renames.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from itertools import count
from pathlib import Path
from typing import NoReturn

from lowgraph.models.presets import PRESETS
from lowgraph.train import checkpoint
from tests.train.runs import filled_checkpoint

SHAPE = PRESETS["nano"].model  # 1.6 MB: a kill meets a write half done


def _write_on(folder: Path, step: int) -> NoReturn:
    for following in count(step + 1):
        checkpoint.write(folder, filled_checkpoint(following, SHAPE))
    raise AssertionError


def _checked_step(folder: Path) -> int:
    found = checkpoint.read(folder)
    for number, group in enumerate(("parameters", "moment1", "moment2")):
        for name, value in getattr(found, group).items():
            assert (value == found.step + number / 4).all(), f"{group} {name} of another step"
    return found.step


def main() -> None:
    folder, rounds = Path(sys.argv[1]), int(sys.argv[2])
    pause = random.Random(int(sys.argv[3]))
    checkpoint.write(folder, filled_checkpoint(0, SHAPE))
    step = leftovers = gaps = 0
    # On a busy machine a kill within 50 ms of the fork may come before any write, round for round:
    # then the pauses grow until kills meet writes.
    longest = 0.05
    for _ in range(rounds):
        child = os.fork()
        if child == 0:
            _write_on(folder, step)
        time.sleep(pause.uniform(0, longest))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        found = _checked_step(folder)
        assert found >= step, f"step {found} after step {step}"
        gaps += checkpoint.find(folder).name == checkpoint.PREVIOUS_NAME
        left = len(checkpoint.prepare(folder))
        if found == step and not left:
            longest = min(longest * 1.1, 1.0)
        step, leftovers = found, leftovers + left
        names = set(os.listdir(folder))
        assert names <= {checkpoint.FILE_NAME, checkpoint.PREVIOUS_NAME}, names
    print(leftovers, gaps, step)


if __name__ == "__main__":
    main()
