"""The device option and the rig fixture. Helpers are in tests.support: import none from here."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator

import pytest

from lowgraph.driver import Device, open_device
from lowgraph.kernels import Library
from tests.support.rig import Rig

EXHAUSTIVE = "exhaustive"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--device",
        default="host",
        help="device for tests that use the rig: host (default), cuda, cuda:N or auto",
    )
    parser.addoption(
        "--replays",
        type=int,
        default=10_000,
        help="replays of the soak test (default: 10000)",
    )
    parser.addoption(
        "--exhaustive",
        action="store_true",
        help="also what takes minutes: all seeded bugs checked, warnings of every C++ part",
    )
    parser.addoption(
        "--seeds",
        choices=["one", "all"],
        default="one",
        help="of a test with several seeds the first (default), or all and further settings, too",
    )


def _is_left_out(item: pytest.Item) -> bool:
    """Whether a usual run goes without it: it takes minutes, or repeats another test."""
    if item.config.getoption("--exhaustive"):
        return False
    if item.get_closest_marker(EXHAUSTIVE) is not None:
        return True
    repeats = _has_later_seed(item) or item.get_closest_marker("further") is not None
    return repeats and item.config.getoption("--seeds") == "one"


def _has_later_seed(item: pytest.Item) -> bool:
    """By the value: pytest's own indices count the sizes that a test takes beside its seeds."""
    for mark in item.iter_markers("parametrize"):
        if mark.args[0] == "seed":
            return bool(item.callspec.params["seed"] != mark.args[1][0])  # type: ignore[attr-defined]
    return False


@pytest.hookimpl(tryfirst=True)  # before -m deselects, so that it sees the mark given here
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip what the chosen device is not meant for; a device test without a mark is for both."""
    on_host = config.getoption("--device") == "host"
    foreign = "gpu" if on_host else "host"
    skip = pytest.mark.skip(reason=f"for the {'GPU' if on_host else 'host device'} only")
    # Left out and not skipped: a run without them is a whole run.
    config.hook.pytest_deselected(items=[item for item in items if _is_left_out(item)])
    items[:] = [item for item in items if not _is_left_out(item)]
    for item in items:
        marked = any(item.get_closest_marker(mark) for mark in ("host", "gpu", "both"))
        if not marked and "device" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.both)
        if item.get_closest_marker(foreign) is not None:
            item.add_marker(skip)


def pytest_collection_finish() -> None:
    """Leave what collecting tests has made out of every later garbage collection.

    These are 700 000 objects; tests ask for some hundred collections, 0.35 s each with them. Not
    beside CuPy: who holds its allocator is asked of the collector, which does not see what is
    frozen (lowgraph/interop/cupy_pinned.py).
    """
    gc.collect()
    if "cupy" not in sys.modules:
        gc.freeze()


@pytest.fixture(scope="session")
def device(request: pytest.FixtureRequest) -> Device:
    """The process's device; a device that cannot be opened fails every test that wants it."""
    return open_device(request.config.getoption("--device"))


@pytest.fixture(scope="session")
def session_library(device: Device) -> Library:
    """One library for all tests, so that a kernel is compiled once a run."""
    return Library(device)


@pytest.fixture
def rig(device: Device, session_library: Library) -> Iterator[Rig]:
    """A device with a stream, kernels and buffers that are freed when the test ends."""
    rig = Rig(device, session_library)
    try:
        yield rig
    finally:
        rig.close()
