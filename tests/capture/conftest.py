"""The steps of these tests on the rig's device, closed at the test's end."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

import pytest

from lowgraph.kernels import Library
from tests.capture.bodies import Parts
from tests.capture.calling_c import KERNELS, Two, build
from tests.capture.looping import Looping
from tests.capture.micro import Micro
from tests.capture.moving import Moving
from tests.support.rig import Rig


@pytest.fixture
def micro(rig: Rig) -> Iterator[Micro]:
    made = Micro(rig)
    yield made
    made.close()


@pytest.fixture
def looping(rig: Rig) -> Iterator[Looping]:
    """A step with a loop on the device."""
    made = Looping(rig)
    yield made
    made.close()


@pytest.fixture
def moving(rig: Rig) -> Iterator[Moving]:
    """A step whose input moves."""
    made = Moving(rig)
    yield made
    made.close()


@pytest.fixture
def parts(rig: Rig) -> Iterator[Parts]:
    """A step with exchangeable bodies."""
    made = Parts(rig)
    yield made
    made.close()


@pytest.fixture(scope="module", params=["notes", "PLAIN"])
def c_library(
    request: pytest.FixtureRequest,
    session_library: Library,
    tmp_path_factory: pytest.TempPathFactory,
) -> ctypes.CDLL:
    """The library with lowgraph.h's notes, and without."""
    more = [] if request.param == "notes" else ["-DPLAIN"]
    built = build(tmp_path_factory.mktemp("c"), *more)
    if more:
        built.lg_failure = None  # as if it had never included the header
    # Trailing bytes: the module is this library's own.
    image = session_library.compiled(KERNELS) + bytes(len(more))
    assert built.prepare(image) == 0
    built.kept = image
    return built


@pytest.fixture
def two(rig: Rig, c_library: ctypes.CDLL) -> Iterator[Two]:
    made = Two(rig, c_library)
    yield made
    made.close()
