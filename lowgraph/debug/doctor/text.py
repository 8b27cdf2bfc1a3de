"""A doctor's report for people: everything once, where it belongs, with how often it was seen.

What was refused before it could leak or freeze is told as a refusal alone, a break and a probe that
a refusal or a leak already names are told there, and a refusal's remedy is its advice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from lowgraph.debug.doctor import advice
from lowgraph.debug.doctor.findings import (
    JOINED,
    LOWGRAPH,
    CaptureSeen,
    FrozenFound,
    Leak,
    RefusalSeen,
    RefusedCall,
    Unowned,
)
from lowgraph.debug.text import printable
from lowgraph.driver import codes
from lowgraph.driver.callers import from_folder
from lowgraph.memory import counted
from lowgraph.stages import within

if TYPE_CHECKING:
    from lowgraph.capture import Break, Probe
    from lowgraph.debug.doctor.report import DoctorReport

__all__ = ["lines"]


def lines(report: DoctorReport) -> Iterator[str]:
    """A line with the figures, then sections, of which those without an entry are left out."""
    graphs = [one for one in report.captures if one.outcome == "recorded"]
    yield (
        f"doctor: {counted(report.findings, 'finding')}; "
        f"{counted(sum(one.times for one in graphs), 'graph')} recorded on "
        f"{report.device or 'no device: none was opened'}"
    )
    for title, texts in _sections(report):
        told = [printable(from_folder(report.folder, text)) for text in texts]
        if told:
            yield f"{title}:"
            yield from (f"  {text}" for text in told)


def _sections(report: DoctorReport) -> Iterator[tuple[str, Iterator[str]]]:
    refusals = report.refusals
    yield "captures", (text for one in report.captures for text in _capture(one))
    yield "leaked out of captures", map(_leak, report.leaked)
    yield "unowned pointers", map(_unowned, report.unowned)
    yield "frozen scalars", map(_frozen, report.frozen)
    yield "refusals", _refusals(refusals, report.breaks)
    yield "races", (f"{one.graph!r}: {one.text}" for one in report.races)
    breaks = (b for b in report.breaks if not any(_is_of(b, one) for one in refusals))
    yield "bisected", map(str, breaks)
    yield "probes", (str(one) for one in report.probes if not _is_told(one, report))
    known = {one.type for one in refusals}
    others = (one for one in report.advice if one.about not in known)
    yield "advice", (f"{one.about}: {one.text} ({one.page})" for one in others)
    works = ", ".join(f"{count} {what}" for what, count in report.beside.items())
    yield "no finding", iter([f"other threads ran beside captures: {works}"] if works else [])
    yield "not looked at", iter(report.notes)


# ---- what is told elsewhere ----


def _is_of(broken: Break, refusal: RefusalSeen) -> bool:
    """Whether a refusal names the place of a break."""
    return broken.label == refusal.label and f"at {broken.where} " in f"{refusal.broken} "


def _is_told(probe: Probe, report: DoctorReport) -> bool:
    """Whether a refusal or a leak is of the place at which a probe broke."""
    if probe.broken is None:
        return False
    place = probe.label, probe.broken.where
    if any((one.capture, one.where) == place for one in report.leaked):
        return True
    return any(
        (one.label, one.where) == place or _is_of(probe.broken, one) for one in report.refusals
    )


# ---- lines ----


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
    sound = one.outcome in ("recorded", JOINED)
    end = nodes if sound else f"{one.outcome.upper()}{_end(one)}"
    began = one.began_at or "no line of Python"
    how = "added to a capture of others" if one.outcome == JOINED else "begun"
    yield f"{one.label!r}{who}: {end}; {how} at {began}{mode}{_times(one.times)}"
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
    stream = f" on stream {one.stream:#x}" if one.stream else ""
    call = f" ({one.call})" if one.call and one.call != one.what else ""
    place = one.where or "no line of Python"
    what = f"{one.what}{call}{stream}{_times(one.times)}"
    return f"{one.kind} beside {one.capture!r}, begun at {one.began_at}: {place}: {what}"


def _unowned(one: Unowned) -> str:
    more = f"; {counted(one.nodes - 1, 'more node')} of it" if one.nodes > 1 else ""
    return f"{one.graph!r}: {one.text}{more}"


def _frozen(one: FrozenFound) -> str:
    return (
        f"{one.graph!r}: {one.where}: {one.argument} of {one.kernel} is {one.recorded} in every "
        f"replay, and {one.later} in another step{_times(one.times)}"
    )


def _refusals(refusals: list[RefusalSeen], breaks: list[Break]) -> Iterator[str]:
    """Those of one type and remedy behind each other, and the remedy once."""
    alike: dict[tuple[str, str], list[RefusalSeen]] = {}
    for one in refusals:
        alike.setdefault((one.type, one.remedy), []).append(one)
    for (_, remedy), found in alike.items():
        for one in found:
            yield from _refusal(one, [broken for broken in breaks if _is_of(broken, one)])
        of = f" of these {len(found)}" if len(found) > 1 else ""
        yield f"  remedy{of}: {remedy or advice.NO_REMEDY} ({advice.ERRORS})"


def _refusal(one: RefusalSeen, breaks: list[Break]) -> Iterator[str]:
    place = f"{one.where}: " if one.where else ""
    stage = within(one.stage)
    if place and f"at {one.where} " in f"{one.broken} ":
        place, stage = "", "" if stage in one.broken else stage
    yield f"{one.label!r}: {one.type}{stage}: {place}{one.reason}{_times(one.times)}"
    if one.broken:
        last = next((broken.after for broken in breaks if broken.after), "")
        yield f"  {one.broken}{f'; whole until then, last after {last}' if last else ''}"
    yield from (f"  suspect: {each}" for each in one.suspects)
