"""Settings with everything on that lies between the gradients and the next parameters."""

from __future__ import annotations

from typing import Any

__all__ = ["EVERYTHING"]

EVERYTHING: dict[str, Any] = {
    "clip_norm": 0.5,
    "ema_decay": 0.9,
    "accumulate": 3,
    "schedule": "linear",
    "final_share": 0.25,
}
"""Fields of a Schedule, and of a TrainConfig: clipping (of most steps), average, micro-batches."""
