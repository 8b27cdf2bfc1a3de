from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.atlas.parts import Parts
from tests.support.rig import Rig


@pytest.fixture
def parts(rig: Rig) -> Iterator[Parts]:
    made = Parts(rig)
    try:
        yield made
    finally:
        rig.sync()
        made.close()
