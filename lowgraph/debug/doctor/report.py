"""DoctorReport: everything a doctor saw, as data and as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from lowgraph.capture import Break, Probe
from lowgraph.debug.doctor.findings import (
    LOWGRAPH,
    Advice,
    CaptureSeen,
    FrozenFound,
    Leak,
    RaceFound,
    RefusalSeen,
    RefusedCall,
    Unowned,
)
from lowgraph.debug.text import printable
from lowgraph.driver import codes
from lowgraph.driver.callers import from_folder
from lowgraph.memory import counted
from lowgraph.stages import within

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
        leaks = [one for one in self.leaks if not one.stopped]
        frozen = [one for one in self.frozen_scalars if not one.refused]
        failed = [one for one in self.captures if not one.is_sound]
        races = [one for one in self.races if one.certain]
        parts = failed, leaks, self.unowned, frozen, self.refusals, races, self.hidden
        return sum(len(part) for part in parts)

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
        """The report for people."""
        graphs = [one for one in self.captures if one.outcome == "recorded"]
        yield (
            f"doctor: {counted(self.findings, 'finding')}; "
            f"{counted(sum(one.times for one in graphs), 'graph')} recorded on "
            f"{self.device or 'no device: none was opened'}"
        )
        for title, texts in self._sections():
            told = [printable(from_folder(self.folder, text)) for text in texts]
            if told:
                yield f"{title}:"
                yield from (f"  {text}" for text in told)

    def _sections(self) -> Iterator[tuple[str, Iterator[str]]]:
        yield "captures", (text for one in self.captures for text in _capture(one))
        yield "leaked out of captures", map(_leak, self.leaks)
        yield "unowned pointers", (f"{one.graph!r}: {one.text}" for one in self.unowned)
        yield "frozen scalars", map(_frozen, self.frozen_scalars)
        yield "refusals", (text for one in self.refusals for text in _refusal(one))
        yield "races", (f"{one.graph!r}: {one.text}" for one in self.races)
        yield "bisected", map(str, self.breaks)
        yield "probes", map(str, self.probes)
        yield "advice", (f"{one.about}: {one.text} ({one.page})" for one in self.advice)
        works = ", ".join(f"{count} {what}" for what, count in self.beside.items())
        yield "no finding", iter([f"other threads ran beside captures: {works}"] if works else [])
        yield "not looked at", iter(self.notes)


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


def _times(times: int) -> str:
    return f" ({times} times)" if times > 1 else ""


def _answer(code: int) -> str:
    return f"{code} {codes.name_of(code)}"


def _kinds(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items())


def _capture(one: CaptureSeen) -> Iterator[str]:
    who = "" if one.by == LOWGRAPH else f", by {one.by}"
    mode = f", {one.mode}" if one.mode else ""
    nodes = f"{counted(one.size, 'node')}: {_kinds(one.nodes)}" if one.nodes else "EMPTY"
    end = nodes if one.outcome == "recorded" else f"{one.outcome.upper()}{_end(one)}"
    began = one.began_at or "no line of Python"
    yield f"{one.label!r}{who}: {end}; begun at {began}{mode}{_times(one.times)}"
    if one.stages and set(one.stages) != {""}:
        told = (f"{name or 'in none'} {_kinds(counts)}" for name, counts in one.stages.items())
        yield f"  by stage: {'; '.join(told)}"
    if one.broken is not None:
        yield f"  broken by {_call(one.broken)}"
    for call in one.refused:
        if call is not one.broken:
            yield f"  refused: {_call(call)}{_times(call.times)}"


def _end(one: CaptureSeen) -> str:
    return f", the end answered {_answer(one.code)}" if one.code else ""


def _call(call: RefusedCall) -> str:
    thread = "" if call.own else " in another thread"
    where = call.where or "no line of Python"
    return f"{call.call} at {where}{thread}, which answered {_answer(call.code)}"


def _leak(one: Leak) -> str:
    if one.stopped:
        where = f" at {one.where}" if one.where else ""
        return f"{one.kind}, refused in {one.capture!r}{where}{_times(one.times)}: see refusals"
    stream = f" on stream {one.stream:#x}" if one.stream else ""
    call = f" ({one.call})" if one.call and one.call != one.what else ""
    place = one.where or "no line of Python"
    what = f"{one.what}{call}{stream}{_times(one.times)}"
    return f"{one.kind} beside {one.capture!r}, begun at {one.began_at}: {place}: {what}"


def _frozen(one: FrozenFound) -> str:
    when = "refused" if one.refused else "in every replay"
    other = f"and {one.later} in another step" if one.later else "and was declared to change"
    return (
        f"{one.graph!r}: {one.where}: {one.argument} of {one.kernel} is {one.recorded} {when}, "
        f"{other}{_times(one.times)}"
    )


def _refusal(one: RefusalSeen) -> Iterator[str]:
    where = f"{one.where}: " if one.where else ""
    told = f"{one.type}{within(one.stage)}"
    yield f"{one.label!r}: {told}: {where}{one.reason}{_times(one.times)}"
    if one.broken:
        yield f"  {one.broken}"
    yield from (f"  suspect: {each}" for each in one.suspects)
    if one.remedy:
        yield f"  remedy: {one.remedy}"
