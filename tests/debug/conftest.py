"""Steps with exchangeable bodies and with a loop on the rig's device, closed at the test's end."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.capture.bodies import Parts
from tests.capture.looping import Looping
from tests.support.rig import Rig


@pytest.fixture
def parts(rig: Rig) -> Iterator[Parts]:
    made = Parts(rig)
    yield made
    made.close()


@pytest.fixture
def looping(rig: Rig) -> Iterator[Looping]:
    made = Looping(rig)
    yield made
    made.close()
