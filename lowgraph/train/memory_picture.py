"""`--plot` of the memory command: the pool's map to scale, as an image."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lowgraph.memory import STATES, MapBlock, PoolMap, readable
from lowgraph.train.plot import write

__all__ = ["draw", "strips"]

ROWS = 24
_SHADES = ("#9ecae1", "#c5b0d5", "#ffbb78", "#98df8a", "lightgray", "white")  # names are black
_COLORS = dict(zip(STATES, _SHADES, strict=True))
_WIDE = 0.08  # of a row: what has the room for a name


def strips(found: PoolMap, rows: int = ROWS) -> Iterator[tuple[int, float, float, MapBlock]]:
    """Blocks one behind the other, cut where a row of the picture ends.

    Yields row, begin and width in parts of a row, and the block. Between two driver allocations
    nothing is left out: the picture is of bytes that are held, not of the address space.
    """
    row_bytes = -(-found.nbytes // rows)
    at = 0
    for block in found.blocks:
        left = block.nbytes
        while left:
            row, begin = divmod(at, row_bytes)
            part = min(left, row_bytes - begin)
            yield row, begin / row_bytes, part / row_bytes, block
            at, left = at + part, left - part


def draw(path: Path, title: str, found: PoolMap) -> None:
    """Draw a map: a colour a state, lines between blocks, names where there is room.

    Raises ConfigError if the file cannot be written; `plot.require` says before if it could not be
    drawn.
    """
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    figure = Figure(figsize=(10, 6.5), layout="constrained")
    axes = figure.add_subplot()
    named: set[int] = set()
    for row, begin, width, block in strips(found):
        color = _COLORS[block.state]
        axes.barh(row, width, left=begin, height=0.9, color=color, edgecolor="black", linewidth=0.3)
        if block.slices and width > _WIDE and block.address not in named:
            named.add(block.address)
            _name(axes, row, begin, width, block)
    axes.set(xlim=(0, 1), ylim=(ROWS - 0.4, -0.6), title=title)
    row_text = readable(-(-found.nbytes // ROWS))
    axes.set_xlabel(f"a row is {row_text} of the pool, in the order of addresses")
    axes.set_xticks([])
    axes.set_yticks([])
    patches = [
        Patch(facecolor=_COLORS[state], edgecolor="black", label=f"{state} {readable(nbytes)}")
        for state in STATES
        if (nbytes := found.of(state))
    ]
    figure.legend(handles=patches, loc="outside lower center", ncols=6, fontsize="small")
    write(path, figure)


def _name(axes: Any, row: int, begin: float, width: float, block: MapBlock) -> None:
    """The slice's name, cut to its room, of which a letter takes a hundredth of a row."""
    name = block.slices[0].name
    more = f" +{len(block.slices) - 1}" if len(block.slices) > 1 else ""
    room = int(width * 110) - len(more)
    cut = name if len(name) <= room else name[: room - 1] + "…"
    # No mathematics: a name may hold a dollar sign.
    axes.text(begin + 0.003, row, cut + more, va="center", fontsize=7, parse_math=False)
