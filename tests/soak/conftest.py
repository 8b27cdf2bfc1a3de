"""The soak tests collect garbage thousands of times: only their own is looked at."""

from __future__ import annotations

import gc

import pytest


@pytest.fixture(scope="module", autouse=True)
def only_new_garbage() -> None:
    """Leave out what is there already: behind PyTorch's tests one collection takes 0.1 s.

    For good: to take it back in would take in what collecting the tests has made.
    """
    gc.collect()
    gc.freeze()
