"""A training step recorded once and replayed as one graph launch, or refused with the reason."""

from __future__ import annotations

from lowgraph.capture.census import Census
from lowgraph.capture.graph import CapturedGraph, drain_dropped
from lowgraph.capture.journal import Journal
from lowgraph.capture.phase import Move, Phase
from lowgraph.capture.report import StepReport
from lowgraph.capture.step import GraphStep
from lowgraph.capture.window import Window

__all__ = [
    "CapturedGraph",
    "Census",
    "GraphStep",
    "Journal",
    "Move",
    "Phase",
    "StepReport",
    "Window",
    "drain_dropped",
]
