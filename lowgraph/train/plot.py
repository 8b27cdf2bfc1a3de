"""`--plot`: losses over the steps as an image, of one run or of several beside each other."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lowgraph.errors import ConfigError
from lowgraph.train.files import replace_file

__all__ = ["compare", "draw", "require", "write"]


def require(path: Path) -> None:
    """Raise ConfigError now if `draw` could not work at the end: no matplotlib, unknown suffix."""
    # PGF is a program for LaTeX, which matplotlib calls.
    known = set(_new_figure().canvas.get_supported_filetypes()) - {"pgf"}
    if _format(path) not in known:
        raise ConfigError(f"--plot {path}: use a name that ends in .{', .'.join(sorted(known))}")


def draw(
    path: Path,
    losses: list[float],
    first_step: int,
    heldout: list[tuple[int, float]],
    baseline_loss: float,
    *,
    baseline: str,
    unit: str,
) -> None:
    """Draw losses: `losses[i]` is of step `first_step + i`; heldout: (step, loss).

    baseline: what `baseline_loss` is of. unit: of all losses, "nats a byte".
    """
    figure = _new_figure()
    axes = figure.add_subplot()
    axes.plot(range(first_step, first_step + len(losses)), losses, linewidth=0.8, label="train")
    axes.plot(*zip(*heldout, strict=True), "o-", label="held out")
    axes.axhline(baseline_loss, linestyle="--", color="gray", label=baseline)
    axes.set_xlabel("step")
    axes.set_ylabel(f"loss ({unit})")
    axes.legend()
    write(path, figure)


def compare(
    path: Path,
    losses: Mapping[str, Sequence[float]],
    *,
    unit: str,
    distances: Mapping[str, Sequence[float]] | None = None,
) -> None:
    """Draw losses of several runs, by label, from step 1 on, each thinner than the one before.

    So equal ones are all seen. distances: relative ones, by label; drawn below, on a scale that is
    logarithmic above the resolution of float32. unit: of all losses, "nats a byte".
    """
    figure = _new_figure()
    above, *below = figure.subplots(1 if distances is None else 2, sharex=True, squeeze=False)[:, 0]
    for number, (label, values) in enumerate(losses.items()):
        steps = range(1, len(values) + 1)
        above.plot(steps, values, linewidth=2.4 / (1 + 2 * number), label=label)
    above.set_ylabel(f"loss ({unit})")
    above.legend()
    for axes in below:
        for label, values in (distances or {}).items():
            axes.plot(range(1, len(values) + 1), values, linewidth=0.8, label=label)
        axes.set_yscale("symlog", linthresh=1e-7)
        axes.set_ylim(bottom=0)
        axes.set_ylabel("relative distance")
        axes.legend()
    (below or [above])[-1].set_xlabel("step")
    write(path, figure)


def write(path: Path, figure: Any) -> None:
    """Write a matplotlib figure, whole or not at all, in the format that the suffix names.

    Raises ConfigError if the file cannot be written; `require` says before if there is no such
    format.
    """
    image = io.BytesIO()
    figure.savefig(image, format=_format(path))
    try:
        replace_file(path, image.getvalue())
    except OSError as error:
        raise ConfigError(f"--plot {path}: {error.strerror or error}") from error


def _format(path: Path) -> str:
    return path.suffix.lstrip(".").lower()


def _new_figure() -> Any:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ConfigError(
            "--plot needs matplotlib; install it with: pip install 'lowgraph[plot]'"
        ) from error
    # A Figure of its own draws without a window system and without pyplot's global state.
    return Figure(figsize=(8, 5), layout="constrained")
