"""The micro-step on the rig's device, closed at the test's end."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.capture.bodies import Parts
from tests.capture.micro import Micro
from tests.support.rig import Rig


@pytest.fixture
def micro(rig: Rig) -> Iterator[Micro]:
    made = Micro(rig)
    yield made
    made.close()


@pytest.fixture
def parts(rig: Rig) -> Iterator[Parts]:
    """A step with exchangeable bodies, closed at the test's end."""
    made = Parts(rig)
    yield made
    made.close()
