"""Which weights come out of a run: held-out losses, samples and exports are of them."""

from __future__ import annotations

from lowgraph.errors import ConfigError

__all__ = ["KINDS", "check", "chosen"]

KINDS = {"plain": "plain weights", "ema": "average of the weights"}
"""The parameters themselves, and the average of them that --ema keeps; as people are told."""


def check(asked: str | None, *, averages: bool) -> None:
    """Raise ConfigError for another word, or for the average where none is kept."""
    if asked is not None and asked not in KINDS:
        raise ConfigError(f"unknown --weights-out {asked!r}; use {', '.join(KINDS)}")
    if asked == "ema" and not averages:
        raise ConfigError(
            "--weights-out ema: the run keeps no average of the weights; leave it out, or begin "
            "one with --ema DECAY"
        )


def chosen(asked: str | None, *, averages: bool) -> str:
    """One of KINDS: what is asked for, else the average where one is kept. Raises as `check`."""
    check(asked, averages=averages)
    return asked or ("ema" if averages else "plain")
