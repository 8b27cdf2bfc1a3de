"""Tests that compare times, and when they may."""

from __future__ import annotations

import os

import pytest

__all__ = ["not_shuffled"]

not_shuffled = pytest.mark.skipif(
    bool(os.environ.get("LOWGRAPH_HOST_SHUFFLE")),
    reason="in shuffle mode the host device waits at random: its times mean nothing",
)
