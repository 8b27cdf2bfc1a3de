"""Device memory whose addresses never move: pool, arenas, pinned staging."""

from __future__ import annotations

from lowgraph.memory.arena import Arena, Layout, Scattered, plan
from lowgraph.memory.exclusive import Exclusive
from lowgraph.memory.owners import (
    MemoryReport,
    Share,
    describe_address,
    memory_report,
    top_owners,
)
from lowgraph.memory.passes import Primed
from lowgraph.memory.pool import PersistentPool
from lowgraph.memory.pool_map import STATES, MapBlock, MapSlice, PoolMap, pool_map
from lowgraph.memory.slices import Slice, register_view
from lowgraph.memory.staging import Staging, StagingSlot, download, fill_zero, upload
from lowgraph.memory.stats import PassFigures, PoolStats, counted, readable

__all__ = [
    "STATES",
    "Arena",
    "Exclusive",
    "Layout",
    "MapBlock",
    "MapSlice",
    "MemoryReport",
    "PassFigures",
    "PersistentPool",
    "PoolMap",
    "PoolStats",
    "Primed",
    "Scattered",
    "Share",
    "Slice",
    "Staging",
    "StagingSlot",
    "counted",
    "describe_address",
    "download",
    "fill_zero",
    "memory_report",
    "plan",
    "pool_map",
    "readable",
    "register_view",
    "top_owners",
    "upload",
]
