"""Bare driver captures, and the micro-step that lowgraph is shown on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.capture.micro import Micro
from tests.field_cases.bare import Bare
from tests.support.rig import Rig


@pytest.fixture
def bare(rig: Rig) -> Iterator[Bare]:
    made = Bare(rig)
    yield made
    made.close()


@pytest.fixture
def micro(rig: Rig) -> Iterator[Micro]:
    made = Micro(rig)
    yield made
    made.close()
