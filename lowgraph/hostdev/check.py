"""The check build: kernels that look at each of their memory accesses, and what they found.

Asked for by `$LOWGRAPH_HOST_CHECK=1` before the device is opened (`python -m lowgraph check` does
that; the library reads it too, for programs without Python). Kernels are compiled with a call
before each access (what that costs: docs/host-device.md); what is wrong becomes a finding, and the
kernel goes on where that is safe.
"""

from __future__ import annotations

import ctypes
import json
import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from lowgraph.errors import ConfigError

__all__ = [
    "REPORTS",
    "RESTING_BLOCKS",
    "SWITCH",
    "Finding",
    "Report",
    "Site",
    "Unchecked",
    "apply",
    "enabled",
    "findings",
    "forget",
    "kernel_seconds",
    "launches",
    "mark_written",
    "merged",
    "of_process",
    "report",
]

SWITCH = "LOWGRAPH_HOST_CHECK"
REPORTS = "LOWGRAPH_HOST_CHECK_REPORT"
"""Names the folder that processes with checks write what they found to, when they end."""

_SECONDS = "LOWGRAPH_HOST_KERNEL_SECONDS"
_DEFAULT_SECONDS = 60.0

RESTING_BLOCKS = 16
"""Blocks that a pool leaves unused after they were given back: used meanwhile, they are told."""

Index = tuple[int, int, int]


@dataclass(frozen=True)
class Site:
    """Who did it, and where: a kernel's name, or "copy", "memset", "wait" without block, thread.

    file: the source file's full path, None where it is not known.
    access: "read", "write", "read and write", "atomic update", "atomic read"; None for none.
    work: of a node race: the node's number in its graph, or the stream ("stream 5"); else None.
    """

    kernel: str | None
    file: str | None
    line: int | None
    block: Index | None
    thread: Index | None
    access: str | None
    work: str | None


@dataclass(frozen=True)
class Finding:
    """One bug: what kind, where, the other side of a race, and how often it was seen.

    kind: out-of-bounds, use-after-free, uninitialised-read, misaligned, host-pointer, shared-race,
        global-race, divergent-barrier, shuffle-mask, node-race, endless-kernel or endless-wait.
    allocation: name of the slice, variable, local array or allocation, None where there is none.
    """

    kind: str
    site: Site
    other: Site | None
    allocation: str | None
    text: str
    count: int

    def as_dict(self) -> dict[str, Any]:
        """The finding as it stands in the JSON report."""
        site, other = vars(self.site), self.other
        return {
            "kind": self.kind,
            **site,
            "other": None if other is None else dict(vars(other)),
            "allocation": self.allocation,
            "text": self.text,
            "count": self.count,
        }


@dataclass(frozen=True)
class Unchecked:
    """A kernel that ran without being looked at: its image was compiled without checks.

    image: the image's file, None where it was given as bytes. source: what it was compiled from,
    None where the image does not say. launches: how many, those of graph replays included.
    """

    kernel: str
    image: str | None
    source: str | None
    launches: int

    def as_dict(self) -> dict[str, Any]:
        """As it stands in the JSON report."""
        return dict(vars(self))


@dataclass(frozen=True)
class Report:
    """What the checks of a run tell: findings, kernels they did not see, launches they did."""

    findings: tuple[Finding, ...]
    unchecked: tuple[Unchecked, ...]
    launches: int

    @property
    def is_clean(self) -> bool:
        """Whether nothing was found and nothing went unseen."""
        return not self.findings and not self.unchecked


def enabled() -> bool:
    """Whether `$LOWGRAPH_HOST_CHECK` asks for the check build; ConfigError unless it is 0 or 1."""
    value = os.environ.get(SWITCH, "") or "0"
    if value not in ("0", "1"):
        raise ConfigError(f"${SWITCH} is {value!r}: must be 1 (check kernels) or 0")
    return value == "1"


def apply(library: ctypes.CDLL) -> None:
    """Switch a library that was just loaded to checking, if that is asked for; set time limits."""
    seconds = kernel_seconds()
    if enabled():
        library.lowgraph_host_set_check()
    set_seconds = library.lowgraph_host_set_kernel_seconds
    set_seconds.argtypes = [ctypes.c_double]
    set_seconds.restype = None
    set_seconds(seconds)


def findings() -> list[Finding]:
    """Return what was found so far, in the order it was first met.

    Work in flight may add to it: synchronise first. One finding for each kind, kernel, line, line
    of the other side, and memory; without another side, for each access too.
    """
    from lowgraph.hostdev import control

    lines = control.findings_text().splitlines()
    return _merged([_finding(json.loads(line)) for line in lines])


def report() -> Report:
    """Return what this process's checks tell so far; synchronise first."""
    from lowgraph.hostdev import control

    lines = map(json.loads, control.unchecked_text().splitlines())
    seen = tuple(Unchecked(**fields) for fields in lines)
    return Report(tuple(findings()), seen, launches())


def of_process(text: str) -> Report | None:
    """Return what a process told at its end, in the folder that $LOWGRAPH_HOST_CHECK_REPORT names.

    text: its file. None: the process ended without telling, by a signal or `_exit`.
    """
    lines = [json.loads(line) for line in text.splitlines()]
    if not lines or set(lines[-1]) != {"launches"}:
        return None
    found = [_finding(line) for line in lines[:-1] if "kind" in line]
    seen = [Unchecked(**line) for line in lines[:-1] if "kind" not in line]
    return Report(tuple(_merged(found)), tuple(seen), int(lines[-1]["launches"]))


def merged(reports: Iterable[Report]) -> Report:
    """Return several processes' reports as one."""
    told = list(reports)
    findings = _merged([found for one in told for found in one.findings])
    counts = Counter[tuple[str, str | None, str | None]]()
    for seen in (seen for one in told for seen in one.unchecked):
        counts[seen.kernel, seen.image, seen.source] += seen.launches
    unchecked = (Unchecked(*which, count) for which, count in counts.items())
    return Report(tuple(findings), tuple(unchecked), sum(one.launches for one in told))


def _merged(every: Iterable[Finding]) -> list[Finding]:
    merged: dict[tuple[Any, ...], Finding] = {}
    for found in every:
        site, other = found.site, found.other
        key = (
            found.kind,
            site.kernel,
            (site.file, site.line),
            site.access if other is None else (other.kernel, other.file, other.line),
            found.allocation,
        )
        first = merged.get(key)
        merged[key] = found if first is None else replace(first, count=first.count + found.count)
    return list(merged.values())


def forget() -> None:
    """Empty the list of findings."""
    from lowgraph.hostdev import control

    control.forget_findings()


def launches() -> int:
    """Return how many kernel launches, those of graph replays included, were checked."""
    from lowgraph.hostdev import control

    return control.launches_checked()


def mark_written(address: int, nbytes: int) -> None:
    """Take device memory for written: the host got at it past the driver, as a view."""
    if nbytes and enabled():
        from lowgraph.hostdev import control

        control.mark_written(address, nbytes)


def _finding(fields: dict[str, Any]) -> Finding:
    other = fields["other"]
    return Finding(
        fields["kind"],
        _site(fields),
        None if other is None else _site(other),
        fields["allocation"],
        fields["text"],
        fields["count"],
    )


def _site(fields: dict[str, Any]) -> Site:
    return Site(
        fields["kernel"],
        fields["file"],
        fields["line"],
        _index(fields["block"]),
        _index(fields["thread"]),
        fields["access"],
        fields["work"],
    )


def _index(values: list[int] | None) -> Index | None:
    return None if values is None else (values[0], values[1], values[2])


def kernel_seconds() -> float:
    """Return the seconds of processor time that a launch may take, 0 for no limit.

    And those that a wait for a word may take in which the device has nothing else to do.

    Raises ConfigError for a wrong value.
    """
    value = os.environ.get(_SECONDS, "")
    if not value:
        return _DEFAULT_SECONDS if enabled() else 0.0
    try:
        seconds = float(value)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise ConfigError(f"${_SECONDS} is {value!r}: must be seconds, or 0 for no limit")
    return seconds
