"""What the host device lacks is known, has a reason, and is written down."""

from __future__ import annotations

import re

import pytest

from lowgraph.driver import Device
from tests.support.process import ROOT
from tools import unsupported_calls as tool

pytestmark = pytest.mark.host


@pytest.fixture(scope="module")
def missing(device: Device) -> set[str]:
    pairs = tool.asked()
    assert len(pairs) > 400, "cuda-bindings 12.9 asks for 483 calls"
    return set(tool.missing(pairs))


def documented() -> set[str]:
    """The names between the markers, on whichever page has them."""
    pages = [path.read_text(encoding="utf-8") for path in (ROOT / "docs").glob("*.md")]
    (section,) = [
        found[1]
        for text in pages
        if (found := re.search(r"<!-- unsupported-calls -->(.*)<!-- /unsupported", text, re.S))
    ]
    return set(re.findall(r"`(cu[A-Z]\w*)`", section))


def test_every_missing_call_has_a_reason(missing: set[str]) -> None:
    found, rest = tool.by_group(sorted(missing))
    assert rest == [], "implement it, or add it to a group of tools/unsupported_calls.py"
    assert sum(map(len, found.values())) == len(missing)


def test_the_page_names_what_is_missing(missing: set[str]) -> None:
    """Other bindings may ask for fewer calls than those that the page was made with."""
    assert missing <= documented(), "python tools/unsupported_calls.py --page"


def test_the_page_names_nothing_that_is_there(device: Device) -> None:
    there = {name for name in documented() if tool.has(name, tool.driver_version())}
    assert there == set()


# What captured work is made of: should one of these be missing, the reasons above would be excuses.
NEEDED = (
    r"cu(Stream(Begin|End|Is|GetCapture|Update)|Event|User"
    r"|Graph(?!ics|\w*ExternalSem))"
)


def test_no_call_for_captures_and_graphs_is_missing(missing: set[str]) -> None:
    lost = {name for name in missing if re.match(NEEDED, name)} - {"cuEventCreateFromEGLSync"}
    assert lost == set()
