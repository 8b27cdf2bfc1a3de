"""The bench on the rig's device, closed at the test's end."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.blas.bench import Bench
from tests.support.rig import Rig


@pytest.fixture
def bench(rig: Rig) -> Iterator[Bench]:
    made = Bench(rig)
    yield made
    made.close()
