"""Gates: what must hold of a graphed training step, each found by running the other arm.

No expected number is written by hand, and each gate can fail: the tests cripple a step for each.
"""

from __future__ import annotations

from lowgraph.train.gates.coverage import coverage
from lowgraph.train.gates.launches import launches
from lowgraph.train.gates.negative import negative
from lowgraph.train.gates.outcome import Gate
from lowgraph.train.gates.replays import moves, positive, repeats
from lowgraph.train.gates.subject import Subject

__all__ = ["Gate", "Subject", "coverage", "launches", "moves", "negative", "positive", "repeats"]
