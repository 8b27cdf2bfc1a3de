"""The engine is built once a test run; helpers are in tests.hostdev.harness."""

from __future__ import annotations

import pytest

from tests.hostdev.harness import Engine, build_engine, load_engine


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    """The host device's engine without a driver, loaded into this process."""
    return load_engine(build_engine(tmp_path_factory.mktemp("engine")))
