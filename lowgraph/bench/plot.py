"""Pictures: bars of each row against its rivals, and cost over the number of kernels."""

from __future__ import annotations

import io
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from lowgraph.errors import ConfigError
from lowgraph.train.files import replace_file

__all__ = ["draw", "draw_overview", "require"]

_COSTS = ("host_us", "wall_us", "capture_us", "instantiate_us", "upload_us", "update_us")


def require(folder: Path) -> None:
    """Make the folder; raise ConfigError now if that cannot be, or there is no matplotlib."""
    _figure(1)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"--plot {folder}: {error.strerror or error}; name a folder") from error


def draw(folder: Path, rows: Sequence[dict[str, Any]]) -> list[Path]:
    """Write bars.png and chain.png, each if there is something to show; returns their paths."""
    timed = [row for row in rows if row["us_median"] is not None]
    bars = [row for row in timed if row["id"] != "B0"]
    chain = [row for row in timed if row["id"] == "B0"]
    written = []
    for name, chosen, make in (("bars.png", bars, _bars), ("chain.png", chain, _chain)):
        if chosen:
            image = io.BytesIO()
            make(chosen).savefig(image, format="png")
            replace_file(folder / name, image.getvalue())
            written.append(folder / name)
    return written


def _bars(rows: Sequence[dict[str, Any]]) -> Any:
    """One panel a case; a bar is the median, its whisker goes from the least to the most."""
    blocks = [list(block) for _, block in groupby(rows, key=lambda row: (row["id"], row["config"]))]
    figure = _figure(len(blocks))
    for place, block in enumerate(blocks, 1):
        axes = figure.add_subplot(len(blocks), 1, place)
        _bar_each(axes, block)
        axes.set_title(f"{block[0]['id']}  {block[0]['config']}", fontsize=8, loc="left")
        axes.set_xlabel("microseconds a step")
        goal = next((row["goal_us"] for row in block if "goal_us" in row), None)
        if goal is not None:
            axes.axvline(goal, linestyle="--", color="black", linewidth=0.8)
    return figure


def _bar_each(axes: Any, block: Sequence[dict[str, Any]]) -> None:
    names = [row["who"] for row in block]
    medians = [row["us_median"] for row in block]
    below = [row["us_median"] - row["us_min"] for row in block]
    above = [row["us_max"] - row["us_median"] for row in block]
    colours = ["tab:green" if name == "lowgraph" else "tab:gray" for name in names]
    axes.barh(names, medians, xerr=(below, above), color=colours)
    axes.invert_yaxis()


def draw_overview(file: Path, rows: Sequence[dict[str, Any]], caption: str) -> None:
    """Write one small picture of all steps: two panels a line, each bar with its figure.

    rows: of a file of `bench --json`; those of chains and those without a time are left out. Raises
    ConfigError where there is nothing left, or no matplotlib.
    """
    timed = [row for row in rows if row["us_median"] is not None and row["clock"] == "wall"]
    blocks = [list(block) for _, block in groupby(timed, key=lambda row: row["id"])]
    if not blocks:
        raise ConfigError("no row with a time of a step; measure with: python -m lowgraph bench")
    lines = (len(blocks) + 1) // 2
    figure = _figure(lines)
    figure.set_size_inches(10, 1.6 * lines + 0.4)
    for place, block in enumerate(blocks, 1):
        axes = figure.add_subplot(lines, 2, place)
        _bar_each(axes, block)
        axes.bar_label(axes.containers[-1], [f" {row['us_median']:,.0f}" for row in block],
                       fontsize=7)  # fmt: skip
        axes.margins(x=0.15)
        axes.tick_params(labelsize=7)
        name = block[0]["config"].split(":")[0]
        axes.set_title(f"{name}, {block[0]['wanted_precision']}", fontsize=8, loc="left")
    figure.supxlabel(caption, fontsize=7)
    image = io.BytesIO()
    figure.savefig(image, format="png", dpi=130)
    replace_file(file, image.getvalue())


def _chain(rows: Sequence[dict[str, Any]]) -> Any:
    """Each cost of each arm over the kernels of the chain, both axes logarithmic."""
    figure = _figure(2)
    axes = figure.add_subplot()
    for who in dict.fromkeys(row["who"] for row in rows):
        for cost in _COSTS:
            points = [(r["size"], r[cost]) for r in rows if r["who"] == who and r.get(cost)]
            if points:
                style = "o-" if who == "lowgraph" else "x--"
                axes.plot(*zip(*points, strict=True), style, label=f"{who}: {cost}", markersize=4)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("kernels in the chain")
    axes.set_ylabel("microseconds")
    axes.legend(fontsize=7)
    return figure


def _figure(panels: int) -> Any:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ConfigError(
            "--plot needs matplotlib; install it with: pip install 'lowgraph[plot]'"
        ) from error
    # A Figure of its own draws without a window system and without pyplot's global state.
    return Figure(figsize=(8, 2.4 * panels), layout="constrained")
