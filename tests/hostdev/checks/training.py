"""Trains for two steps and looks at the held-out text: `training.py micro|nano FOLDER`."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from lowgraph import open_device
from lowgraph.train.config import TrainConfig
from lowgraph.train.loop import Trainer
from lowgraph.train.plan import make_plan
from tests.train.runs import micro_corpus, micro_plan

if __name__ == "__main__":
    device = open_device("auto")
    config = TrainConfig(preset="nano", steps=2, heldout_batches=1)
    plan = micro_plan(steps=2) if sys.argv[1] == "micro" else make_plan(config, "host")
    corpus = micro_corpus(Path(sys.argv[2]))
    with Trainer(device, config, replace(plan, log_every=1), corpus) as run:
        run.train()
        print(f"step {run.step}, {len(run.losses)} losses")
