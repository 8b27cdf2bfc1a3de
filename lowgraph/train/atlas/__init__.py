"""The launch atlas: where a step's launches, nodes and time go, by stage, kernel and arm."""

from __future__ import annotations

from lowgraph.train.atlas.arms import Arm, Cross
from lowgraph.train.atlas.atlas import Atlas, Population, make_atlas
from lowgraph.train.atlas.measure import Measured, measure
from lowgraph.train.atlas.prices import Prices
from lowgraph.train.atlas.roadmap import Merge
from lowgraph.train.atlas.rows import Row, StageSummary, read_rows, summarise, write_rows
from lowgraph.train.atlas.subject import Subject
from lowgraph.train.atlas.text import summary_text, text_of

__all__ = [
    "Arm",
    "Atlas",
    "Cross",
    "Measured",
    "Merge",
    "Population",
    "Prices",
    "Row",
    "StageSummary",
    "Subject",
    "make_atlas",
    "measure",
    "read_rows",
    "summarise",
    "summary_text",
    "text_of",
    "write_rows",
]
