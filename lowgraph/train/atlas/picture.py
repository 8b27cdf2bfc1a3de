"""`--plot` of the atlas: a bar a log, divided by stages, as an image."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

from lowgraph.errors import ConfigError
from lowgraph.train.atlas.rows import StageSummary, in_order
from lowgraph.train.files import replace_file

__all__ = ["draw"]

_NO_STAGE = "(none)"
_SEEN = 1e-3  # microseconds: what is left of a stage by rounding alone is less
_HATCHES = ("", "//", "xx", "..")  # of each ten stages, which have a colour each


def draw(path: Path, names: Sequence[str], logs: Sequence[Sequence[StageSummary]]) -> None:
    """Draw each log's stages, microseconds of their own, one bar a log under its name.

    Raises ConfigError if the file cannot be written; `plot.require` says before if it could not be
    drawn.
    """
    from matplotlib.figure import Figure

    stages = in_order(one.stage for log in logs for one in log)
    own = [{one.stage: one.own_us for one in log} for log in logs]
    figure = Figure(figsize=(10, 2.5 + 0.6 * len(logs)), layout="constrained")
    axes = figure.add_subplot()
    left = [0.0] * len(logs)
    for number, stage in enumerate(stages):
        widths = [log.get(stage, 0.0) for log in own]
        if max(widths) > _SEEN:
            color, hatch = f"C{number % 10}", _HATCHES[number // 10 % len(_HATCHES)]
            label = stage or _NO_STAGE
            axes.barh(range(len(logs)), widths, left=left, label=label, color=color, hatch=hatch)
            left = [start + width for start, width in zip(left, widths, strict=True)]
    axes.set_yticks(range(len(logs)), labels=names)
    axes.invert_yaxis()
    axes.set_xlabel("microseconds on the device, mean of the warm window")
    figure.legend(loc="outside lower center", ncols=4, fontsize="small")
    image = io.BytesIO()
    figure.savefig(image, format=path.suffix.lstrip(".").lower())
    try:
        replace_file(path, image.getvalue())
    except OSError as error:
        raise ConfigError(f"--plot {path}: {error.strerror or error}") from error
