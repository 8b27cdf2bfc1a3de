"""`--plot` of the atlas: two bars a log, of time and of nodes, divided by stages, as an image."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from lowgraph.train.atlas.rows import StageSummary, in_order
from lowgraph.train.plot import write

__all__ = ["draw"]

_NO_STAGE = "(none)"
_SEEN = 1e-3  # microseconds: what is left of a stage by rounding alone is less
_LETTER = 0.012  # of the longest bar: the room that a digit takes
_HATCHES = ("", "//", "xx", "..")  # of each ten stages, which have a colour each

Logs = Sequence[Sequence[StageSummary]]


def draw(path: Path, names: Sequence[str], logs: Logs) -> None:
    """Draw what each log's stages have of their own, under the log's name.

    Above microseconds, below nodes of a replay, or launches of a log without a graph. Raises
    ConfigError if the file cannot be written; `plot.require` says before if it could not be drawn.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4 + 0.9 * len(logs)), layout="constrained")
    above, below = figure.subplots(2)
    drawn = _bars(above, names, logs, lambda one: one.own_us, "{:.0f}")
    above.set_xlabel("microseconds on the device, mean of the warm window")
    drawn |= _bars(below, names, logs, lambda one: one.own_nodes or one.own_launches, "{:d}")
    below.set_xlabel("nodes of a replay (launches, where there is no graph)")
    labels = [name or _NO_STAGE for name in _stages(logs) if name in drawn]
    handles = [drawn[name] for name in _stages(logs) if name in drawn]
    figure.legend(handles, labels, loc="outside lower center", ncols=4, fontsize="small")
    write(path, figure)


def _stages(logs: Logs) -> list[str]:
    return in_order(one.stage for log in logs for one in log)


def _bars(
    axes: Any,
    names: Sequence[str],
    logs: Logs,
    figure_of: Callable[[StageSummary], float],
    number: str,
) -> dict[str, Any]:
    """One bar a log; returns a handle for the legend by stage, of those that are seen."""
    own = [{one.stage: figure_of(one) for one in log} for log in logs]
    longest = max(sum(log.values()) for log in own) or 1.0
    left: list[float] = [0] * len(logs)
    drawn = {}
    for place, stage in enumerate(_stages(logs)):
        widths = [log.get(stage, 0) for log in own]
        if max(widths) <= _SEEN:
            continue
        color, hatch = f"C{place % 10}", _HATCHES[place // 10 % len(_HATCHES)]
        bars = axes.barh(range(len(logs)), widths, left=left, color=color, hatch=hatch,
                         edgecolor="white")  # fmt: skip
        room = _LETTER * longest
        told = [text if width > room * len(text) else ""
                for width, text in ((width, number.format(width)) for width in widths)]  # fmt: skip
        axes.bar_label(bars, told, label_type="center", fontsize="x-small",
                       bbox={"facecolor": "white", "edgecolor": "none", "pad": 1})  # fmt: skip
        left = [start + width for start, width in zip(left, widths, strict=True)]
        drawn[stage] = bars
    axes.set_yticks(range(len(logs)), labels=names)
    axes.invert_yaxis()
    return drawn
