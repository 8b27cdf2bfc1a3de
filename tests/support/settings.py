"""Settings of a test that takes long: some in a usual run, the others with `--seeds all` only."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def settings(usual: Iterable[Any], further: Iterable[Any]) -> list[Any]:
    """Return all of them, for `parametrize`; a tuple is one setting of several values."""
    marked = (
        pytest.param(*(one if isinstance(one, tuple) else (one,)), marks=pytest.mark.further)
        for one in further
    )
    return [*usual, *marked]
