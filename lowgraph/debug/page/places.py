"""Where everything of a graph's picture stands, in pixels at full size, y downwards.

Bodies stand below each other, the whole graph first. Where lanes are streams their names stand
above them. What one lane does of one stage is a group: a frame with the stage's name above its
first node.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from lowgraph.debug.form import Form, Node
from lowgraph.debug.page.lanes import Lanes, lanes

__all__ = ["Group", "Name", "Picture", "Section", "picture"]

_WIDTHS = {1: (420,), 2: (340, 200)}  # of the boxes of each lane, where there are so few
_NARROW = 208  # of all others
_HEIGHT = 38
_BESIDE, _BELOW = 40, 16  # room between boxes, for edges
_MARGIN = 24
_NAME = 22  # above a group's first row, for its stage
_TITLE = 30  # above a body's margin
_LANE = 20  # above that margin too, for the names of streams
_INSET = 8  # of a group's frame around its boxes


@dataclass(frozen=True)
class Group:
    """Nodes of one lane that follow each other and are of one stage."""

    x: int
    y: int
    width: int
    height: int
    stage: str


@dataclass(frozen=True)
class Section:
    """A body's share of the picture."""

    body: int
    y: int
    height: int


@dataclass(frozen=True)
class Name:
    """What stands above a lane of a body: the stream that it is."""

    x: int
    y: int
    stream: int


@dataclass
class Picture:
    """boxes: x, y and width of each node's, by index. row: height of them all. width, height: of
    the whole.
    """

    boxes: list[tuple[int, int, int]]
    row: int = _HEIGHT
    groups: list[Group] = field(default_factory=list)
    sections: list[Section] = field(default_factory=list)
    names: list[Name] = field(default_factory=list)
    width: int = 0
    height: int = 0


def picture(form: Form, narrow: bool = False) -> Picture:
    """Place all nodes of a form. narrow: two such pictures have to stand side by side."""
    inside = form.inside()
    placed = [lanes(nodes) for nodes in inside]
    count = 1 + max((lane for one in placed for lane in one.lane), default=0)
    widths = (() if narrow else _WIDTHS.get(count, ())) or (_NARROW,) * count
    found = Picture([(0, 0, 0)] * len(form.nodes))
    y = 0
    for number, nodes in enumerate(inside):
        top = y + (_TITLE if number else 0)
        below = _place(found, nodes, placed[number], widths, top)
        found.sections.append(Section(number, y, below - y))
        y = below
    found.height = y
    return found


def _place(
    found: Picture, nodes: Sequence[Node], placed: Lanes, widths: Sequence[int], top: int
) -> int:
    """Place a body's nodes from `top` on; returns where it ends."""
    lefts = [_MARGIN]
    for width in widths:
        lefts.append(lefts[-1] + width + _BESIDE)
    names = zip(lefts, placed.streams, strict=False)
    found.names += [Name(left, top, stream) for left, stream in names]
    top += _LANE if placed.streams else 0
    runs = _runs(nodes, placed)
    named = {placed.row[run[0]] for run in runs if nodes[run[0]].stage}
    rows, y = [], top + _MARGIN
    for row in range(max(placed.row, default=-1) + 1):
        y += _NAME if row in named else 0
        rows.append(y)
        y += _HEIGHT + _BELOW
    for at, node in enumerate(nodes):
        lane = placed.lane[at]
        found.boxes[node.index] = lefts[lane], rows[placed.row[at]], widths[lane]
        found.width = max(found.width, lefts[lane] + widths[lane] + _MARGIN)
    for run in runs:
        stage = nodes[run[0]].stage
        if stage:
            x, first, width = found.boxes[nodes[run[0]].index]
            last = found.boxes[nodes[run[-1]].index][1]
            frame = x - _INSET, first - _NAME, width + 2 * _INSET
            found.groups.append(Group(*frame, last - first + _HEIGHT + _NAME + _INSET, stage))
    return y + _MARGIN


def _runs(nodes: Sequence[Node], placed: Lanes) -> list[list[int]]:
    """Places of nodes that follow each other on a lane and have one stage."""
    runs: list[list[int]] = []
    run_of: dict[int, list[int]] = {}
    for at in sorted(range(len(nodes)), key=lambda one: placed.row[one]):
        above = placed.above[at]
        if above is not None and nodes[above].stage == nodes[at].stage:
            run = run_of[above]
        else:
            run = []
            runs.append(run)
        run.append(at)
        run_of[at] = run
    return runs
