"""A step with exchangeable bodies on the rig's device, closed at the test's end."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.capture.bodies import Parts
from tests.support.rig import Rig


@pytest.fixture
def parts(rig: Rig) -> Iterator[Parts]:
    made = Parts(rig)
    yield made
    made.close()
