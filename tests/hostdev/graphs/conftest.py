"""The kernels of the graph tests, compiled once, and what the tests issue work with."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lowgraph.driver import Device
from tests.hostdev.graphs.kit import SOURCE, Kit
from tests.hostdev.graphs.world import BLOCKING, CaptureWorld


@pytest.fixture(scope="session")
def image(device: Device) -> bytes:
    return device.compile(SOURCE, [], {})


@pytest.fixture
def kit(device: Device, image: bytes) -> Iterator[Kit]:
    made = Kit(device, image)
    yield made
    made.close()


@pytest.fixture
def world(device: Device, image: bytes) -> Iterator[CaptureWorld]:
    made = CaptureWorld(device, image)
    yield made
    made.close()


@pytest.fixture
def blocking_world(device: Device, image: bytes) -> Iterator[CaptureWorld]:
    made = CaptureWorld(device, image, BLOCKING)
    yield made
    made.close()
