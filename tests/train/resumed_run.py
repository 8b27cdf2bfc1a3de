"""A run that goes on from its folder where it was killed: DEVICE MODEL DATA FOLDER STEPS.

It writes a checkpoint after each second step and says so; at the end it writes one more.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from lowgraph.driver import open_device
from lowgraph.train import checkpoint
from lowgraph.train.config import TrainConfig
from lowgraph.train.datasets import read_data
from lowgraph.train.loop import Trainer
from tests.train.runs import micro_plan


def main() -> None:
    spec, model, steps = sys.argv[1], sys.argv[2], int(sys.argv[5])
    file, folder = Path(sys.argv[3]), Path(sys.argv[4])
    resume = checkpoint.read(folder) if os.path.isdir(folder) else None
    checkpoint.prepare(folder)

    def write(trainer: Trainer) -> None:
        checkpoint.write(folder, trainer.checkpoint())
        print(trainer.step, flush=True)

    config = TrainConfig(checkpoint=folder, checkpoint_every=2)
    device, plan = open_device(spec), micro_plan(model, steps=steps)
    data = read_data(model, file)
    with Trainer(device, config, plan, data, resume=resume, on_checkpoint=write) as trainer:
        trainer.train()
        write(trainer)


if __name__ == "__main__":
    main()
