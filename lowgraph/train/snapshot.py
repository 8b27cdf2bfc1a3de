"""A run's settings as a checkpoint keeps them, and which of them a resumed run may change.

A new field of TrainConfig is in the snapshot without being named here, and may not change: what
does not matter to the run is declared in MAY_CHANGE, with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from lowgraph.errors import ConfigError
from lowgraph.train.checks import flag
from lowgraph.train.config import TrainConfig

__all__ = ["MAY_CHANGE", "refuse_changes", "settings", "snapshot"]

MAY_CHANGE = {
    "device": "the same run elsewhere; bit for bit only on the same device",
    "steps": "a longer or shorter run; the learning-rate schedule is stretched with it",
    "data": "the text may move; its sha256 in the cursor may not change",
    "log_every": "when losses are read",
    "eval_every": "when it is measured; nothing is trained by it",
    "heldout_batches": "how much is measured",
    "graph": "both ways give the same bits",
    "sample": "written after the last step",
    "temperature": "of the sample",
    "json": "an output",
    "plot": "an output",
    "log": "an output",
    "timers": "measured; the step computes the same bits",
    "checkpoint": "an output",
    "checkpoint_every": "when it is written; nothing is trained by it",
    "resume": "where the run comes from",
    "export": "an output",
    "weights_out": "of what is measured and written; nothing is trained by it",
}
"""Fields of TrainConfig that a resumed run may change, and why that leaves it the same run."""

_UNSAID = {"resume", "heldout_batches"}  # the flag of the resume itself, and what has no flag


def settings(config: TrainConfig) -> dict[str, Any]:
    """Every field of a config, ready for JSON. None: left to the checkpoint or the preset."""
    values = {field.name: getattr(config, field.name) for field in fields(TrainConfig)}
    return {
        name: str(value) if isinstance(value, Path) else value for name, value in values.items()
    }


def snapshot(config: TrainConfig, known: Mapping[str, Any]) -> dict[str, Any]:
    """Every field of a config; known: values found since, for what flags left open."""
    return {name: known.get(name, value) for name, value in settings(config).items()}


def refuse_changes(kept: Mapping[str, Any], asked: Mapping[str, Any]) -> None:
    """Raise ConfigError naming every setting that matters and is not the resumed run's.

    kept: the resumed run's snapshot, or a part of it. asked: `settings` or a `snapshot`, of which a
    None asks for nothing. They are named in `asked`'s order, which is the flags'.
    """
    changed = [
        f"{flag(name)} {value} differs from the resumed run's {kept[name]}"
        for name, value in asked.items()
        if name in kept and name not in MAY_CHANGE and value is not None and value != kept[name]
    ]
    if changed:
        free = ", ".join(flag(name) for name in MAY_CHANGE if name not in _UNSAID)
        raise ConfigError(
            f"{'; '.join(changed)}; leave the flag out, or begin a new run without --resume "
            f"(a resumed run may change {free})"
        )
