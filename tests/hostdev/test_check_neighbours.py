"""The check build takes nothing that lies beside shared memory for an overflow of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.hostdev.check_kit import CHECKS, Run, run_check

pytestmark = pytest.mark.host


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run_check(tmp_path_factory.mktemp("check"), CHECKS / "neighbours.py")


@pytest.fixture(scope="module")
def printed(checked: Run) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(checked.out.splitlines()[0])
    return found


def test_a_mebibyte_behind_dynamic_shared_memory_is_nobodys(printed: dict[str, Any]) -> None:
    assert list(printed["mapped"].values()) == ["---p"] * 5


def test_registered_memory_behind_static_shared_memory_is_the_callers(
    checked: Run, printed: dict[str, Any]
) -> None:
    assert printed["read"]
    assert checked.of("copy_clean") == []
    (found,) = checked.of("behind")  # as far behind the tile, and nobody's
    assert (found["kind"], Path(found["file"]).name) == ("out-of-bounds", "neighbours.cu")
