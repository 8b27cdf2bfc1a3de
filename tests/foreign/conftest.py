"""cuda.core's objects are made once a module; helpers are in tests.foreign.core."""

from __future__ import annotations

from typing import Any

import pytest

from lowgraph.driver import Device


@pytest.fixture(scope="module")
def core(device: Device) -> Any:
    """cuda.core on the device; skips where it is not installed (it is optional)."""
    from tests.foreign.core import Core

    return Core(device)
