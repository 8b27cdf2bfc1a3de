"""Logits that become their own gradient, in place: what may be asked of their trace, and when.

A second loss would read the gradient for logits, and a backward before the loss the logits for a
gradient: both are numbers like the right ones.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from lowgraph.errors import ConfigError

__all__ = ["HoldsLogits"]


@dataclass
class HoldsLogits:
    """What a trace with logits inherits.

    has_gradient: there is where backward starts; logits that are kept are their gradient by now.
    """

    has_gradient: bool = field(default=False, kw_only=True)

    def read_logits(self) -> None:
        """A loss is about to read the logits. Raises ConfigError when they are none any more."""
        if self.has_gradient:
            raise ConfigError(
                "the logits of this trace hold their gradient since loss_and_gradient: call "
                "forward again for a trace of its own"
            )

    def turn_logits(self) -> None:
        """They are about to become their gradient. Raises ConfigError as `read_logits`."""
        self.read_logits()
        self.has_gradient = True

    def read_gradient(self) -> None:
        """Backward is about to read the gradient. Raises ConfigError where there is none yet."""
        if not self.has_gradient:
            raise ConfigError("backward comes after loss_and_gradient: call that with the trace")
