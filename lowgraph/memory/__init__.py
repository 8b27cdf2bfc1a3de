"""Device memory whose addresses never move: pool, arenas, pinned staging."""

from __future__ import annotations

from lowgraph.memory.arena import Arena, Layout, plan
from lowgraph.memory.passes import Primed
from lowgraph.memory.pool import PersistentPool
from lowgraph.memory.slices import Slice, register_view
from lowgraph.memory.staging import Staging, StagingSlot, download, fill_zero, upload
from lowgraph.memory.stats import PassFigures, PoolStats, readable

__all__ = [
    "Arena",
    "Layout",
    "PassFigures",
    "PersistentPool",
    "PoolStats",
    "Primed",
    "Slice",
    "Staging",
    "StagingSlot",
    "download",
    "fill_zero",
    "plan",
    "readable",
    "register_view",
    "upload",
]
