"""A race between works names the block, the thread and the line of a kernel's side."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.hostdev.check_kit import run_python
from tests.hostdev.toucher_cases import AT, BLOCK, CASES, GRID, SOURCE, THREADS

pytestmark = pytest.mark.host
Found = dict[str, list[dict[str, Any]]]
WORDS = ("kernel", "file", "line", "block", "thread")


@pytest.fixture(scope="module")
def found() -> Found:
    done = run_python("-m", "tests.hostdev.toucher_cases", LOWGRAPH_HOST_CHECK="1")
    assert done.returncode == 0, done.stderr
    results: Found = json.loads(done.stdout)
    return results


def index_in(number: int, extent: tuple[int, ...]) -> list[int]:
    x, y = number % extent[0], number // extent[0] % extent[1]
    return [x, y, number // extent[0] // extent[1]]


def expected(name: str, element: int) -> dict[str, Any]:
    thread, text = CASES[name].touched_last(element)
    lines = SOURCE.read_text(encoding="utf-8").splitlines()
    begins = next(n for n, line in enumerate(lines) if f" {name}(" in line)
    line = next(n for n, line in enumerate(lines[begins:], begins + 1) if text in line)
    block, inside = index_in(thread // THREADS, GRID), index_in(thread % THREADS, BLOCK)
    return dict(zip(WORDS, (name, str(SOURCE), line, block, inside), strict=True))


@pytest.mark.parametrize("kernel_first", [True, False], ids=["earlier", "later"])
@pytest.mark.parametrize("name", CASES)
def test_the_last_that_touched_the_element_is_named(
    found: Found, name: str, kernel_first: bool
) -> None:
    for element in AT:
        (race,) = found[f"{name} {element} {kernel_first}"]
        assert race["kind"] == "node-race"
        sides = race, race["other"]
        ours, memset = reversed(sides) if kernel_first else sides
        assert {word: ours[word] for word in WORDS} == expected(name, element), element
        assert [memset[word] for word in WORDS] == ["memset", None, None, None, None]
