"""The kernels of the driver tests, compiled once; all tests here are the host device's own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lowgraph.driver import Device
from tests.hostdev.driver.kit import SOURCE, Kit


@pytest.fixture(scope="session")
def driver_image(device: Device) -> bytes:
    return device.compile(SOURCE, [], {})


@pytest.fixture
def kit(device: Device, driver_image: bytes) -> Iterator[Kit]:
    made = Kit(device, driver_image)
    yield made
    made.close()
