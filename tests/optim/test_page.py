"""docs/optimizer.md names what the control block has, and nothing else."""

from __future__ import annotations

import re

from lowgraph.ops.control import CONTROL_DTYPE, SCHEDULES, SETTINGS
from lowgraph.ops.loss_ring import LossRecord
from tests.packaging.tree import ROOT

PAGE = (ROOT / "docs" / "optimizer.md").read_text(encoding="utf-8")


def _table(head: str) -> list[str]:
    """The names in the first column of the table under `head`."""
    rows = PAGE.split(f"| {head} | |\n", 1)[1].split("\n\n", 1)[0].splitlines()[1:]
    return [name for row in rows for name in re.findall(r"`(\w+)`", row.split("|")[1])]


def test_the_page_lists_every_field_of_the_control_block() -> None:
    names = list(CONTROL_DTYPE.fields or ())
    assert sorted(_table("Setting")) == sorted(SETTINGS)
    assert sorted(_table("State")) == sorted(set(names) - set(SETTINGS))
    assert f"{CONTROL_DTYPE.itemsize} bytes;" in PAGE


def test_the_page_names_the_schedules_and_the_fields_of_a_record() -> None:
    for name in (*SCHEDULES, *LossRecord._fields):
        assert f"`{name}`" in PAGE, name
