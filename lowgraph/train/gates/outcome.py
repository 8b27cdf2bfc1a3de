"""What a gate says."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Gate"]


@dataclass(frozen=True)
class Gate:
    """A gate's outcome; the field names are the keys of the JSON file.

    name: lower case. figure: the number it was judged by, which `detail` explains; None when the
    gate did not get so far.
    """

    name: str
    passed: bool
    figure: float | None
    detail: str

    def text(self) -> str:
        """One line for people."""
        return f"{'passed' if self.passed else 'FAILED'}  {self.name:9} {self.detail}"
