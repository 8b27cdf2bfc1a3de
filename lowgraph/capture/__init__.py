"""A training step recorded once and replayed as one graph launch, or refused with the reason."""

from __future__ import annotations

from lowgraph.capture.bisect import Break, bisecting
from lowgraph.capture.buffers import HeldBuffer
from lowgraph.capture.c_function import CFunction, include_dir
from lowgraph.capture.census import Census
from lowgraph.capture.conditional import Conditional
from lowgraph.capture.graph import CapturedGraph, drain_dropped
from lowgraph.capture.graph_part import GraphPart
from lowgraph.capture.host_calls import HostCall, raise_pending
from lowgraph.capture.journal import Journal
from lowgraph.capture.node_params import NodeRecord
from lowgraph.capture.phase import Move, Phase
from lowgraph.capture.pinned_memory import ForeignMemory
from lowgraph.capture.pins import CopyIn, Input, Rebind, Table
from lowgraph.capture.probe import Probe, probing
from lowgraph.capture.report import StepReport
from lowgraph.capture.shapes import ShapeKeyedSteps
from lowgraph.capture.shapes_report import ShapesReport
from lowgraph.capture.stage_timer import StageTimer, StageTimes
from lowgraph.capture.step import GraphStep
from lowgraph.capture.window import Window

__all__ = [
    "Break",
    "CFunction",
    "CapturedGraph",
    "Census",
    "Conditional",
    "CopyIn",
    "ForeignMemory",
    "GraphPart",
    "GraphStep",
    "HeldBuffer",
    "HostCall",
    "Input",
    "Journal",
    "Move",
    "NodeRecord",
    "Phase",
    "Probe",
    "Rebind",
    "ShapeKeyedSteps",
    "ShapesReport",
    "StageTimer",
    "StageTimes",
    "StepReport",
    "Table",
    "Window",
    "bisecting",
    "drain_dropped",
    "include_dir",
    "probing",
    "raise_pending",
]
