"""`--plot`: the training loss and the held-out loss over the steps, as an image."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from lowgraph.errors import ConfigError
from lowgraph.train.files import replace_file

__all__ = ["draw", "require"]


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
