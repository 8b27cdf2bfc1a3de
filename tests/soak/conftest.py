"""The soak tests collect garbage thousands of times: only their own is looked at."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module", autouse=True)
def only_new_garbage() -> Iterator[None]:
    """Leave out what is there already: behind PyTorch's tests one collection takes 0.1 s."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()
