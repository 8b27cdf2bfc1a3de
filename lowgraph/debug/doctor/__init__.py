"""Watching a program's captures from outside: what was recorded, what leaked, what was refused."""

from __future__ import annotations

from lowgraph.debug.doctor.findings import (
    Advice,
    CaptureSeen,
    FrozenFound,
    Leak,
    RaceFound,
    RefusalSeen,
    Unowned,
)
from lowgraph.debug.doctor.report import DoctorReport
from lowgraph.debug.doctor.watch import Doctor

__all__ = [
    "Advice",
    "CaptureSeen",
    "Doctor",
    "DoctorReport",
    "FrozenFound",
    "Leak",
    "RaceFound",
    "RefusalSeen",
    "Unowned",
]
