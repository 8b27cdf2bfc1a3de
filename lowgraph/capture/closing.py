"""What is closed by `close()`, and at the end of a `with` block."""

from __future__ import annotations

from types import TracebackType
from typing import TypeVar

__all__ = ["Closing"]

_Itself = TypeVar("_Itself", bound="Closing")  # typing.Self is Python 3.11's


class Closing:
    """Closes itself at the end of a `with` block, whatever the block raised."""

    def close(self) -> None:
        """Let go of everything. Idempotent."""
        raise NotImplementedError

    def __enter__(self: _Itself) -> _Itself:
        """Return itself, to be closed at the end of the `with` block."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close it."""
        self.close()
