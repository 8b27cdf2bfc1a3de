"""DoctorReport: everything a doctor saw, as data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from lowgraph.capture import Break, Probe
from lowgraph.debug.doctor import text
from lowgraph.debug.doctor.findings import (
    Advice,
    CaptureSeen,
    FrozenFound,
    Leak,
    RaceFound,
    RefusalSeen,
    Unowned,
)

__all__ = ["DoctorReport"]


@dataclass(frozen=True)
class DoctorReport:
    """See the module. device: "" if none was opened.

    breaks: of bisected windows; probes: of probe passes. beside: works of other threads during
    captures, which is no finding. seconds: the doctor's own, of listening. notes: what was not
    looked at. folder: that the doctor was made in, from which lines tell paths; "" for none.
    """

    device: str
    captures: list[CaptureSeen]
    leaks: list[Leak]
    unowned: list[Unowned]
    frozen_scalars: list[FrozenFound]
    refusals: list[RefusalSeen]
    races: list[RaceFound]
    breaks: list[Break]
    probes: list[Probe]
    advice: list[Advice]
    beside: Mapping[str, int]
    seconds: float
    notes: list[str]
    folder: str = ""

    @property
    def findings(self) -> int:
        """How many things are wrong, each kind and place counted once.

        What was refused before it could leak or freeze is counted as a refusal.
        """
        failed = [one for one in self.captures if not one.is_sound]
        races = [one for one in self.races if one.certain]
        parts = failed, self.leaked, self.unowned, self.frozen, self.refusals, races, self.hidden
        return sum(len(part) for part in parts)

    @property
    def leaked(self) -> list[Leak]:
        """Leaks that came to pass: the others were refused, and are told as that."""
        return [one for one in self.leaks if not one.stopped]

    @property
    def frozen(self) -> list[FrozenFound]:
        """Values that replays do repeat: the others were refused."""
        return [one for one in self.frozen_scalars if not one.refused]

    @property
    def hidden(self) -> list[Probe]:
        """Probes that broke where the program itself meets no leak and no refusal."""
        known = {one.label for one in self.refusals} | {one.capture for one in self.leaks}
        return [one for one in self.probes if one.broken is not None and one.label not in known]

    def as_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        found = {name: [asdict(each) for each in getattr(self, name)] for name in _LISTS}
        return {
            "device": self.device,
            "findings": self.findings,
            **found,
            "probes": [_probe(each) for each in self.probes],
            "beside": dict(self.beside),
            "seconds": self.seconds,
            "notes": self.notes,
        }

    def lines(self) -> Iterator[str]:
        """The report for people: everything once, where it belongs, with how often it was seen."""
        return text.lines(self)


_LISTS = (
    "captures",
    "leaks",
    "unowned",
    "frozen_scalars",
    "refusals",
    "races",
    "breaks",
    "advice",
)


def _probe(probe: Probe) -> dict[str, Any]:
    broken = None if probe.broken is None else asdict(probe.broken)
    error = None if probe.error is None else f"{type(probe.error).__name__}: {probe.error}"
    return {"label": probe.label, "broken": broken, "error": error}
