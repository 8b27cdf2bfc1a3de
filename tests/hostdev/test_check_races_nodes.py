"""The check build finds graph nodes and works of streams that nothing orders."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.hostdev.check_kit import run_python
from tests.hostdev.race_node_cases import BYTES, CASES

pytestmark = pytest.mark.host
NAMES = [case.__name__ for case in CASES]
Found = dict[str, list[dict[str, Any]]]


@pytest.fixture(scope="module")
def found() -> Found:
    done = run_python("-m", "tests.hostdev.race_node_cases", LOWGRAPH_HOST_CHECK="1")
    assert done.returncode == 0, done.stderr
    results: Found = json.loads(done.stdout)
    return results


@pytest.mark.parametrize("name", NAMES)
def test_works_without_an_order_are_found(found: Found, name: str) -> None:
    assert [finding["kind"] for finding in found[name]] == ["node-race"]


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_found_with_the_order(found: Found, name: str) -> None:
    assert found[f"{name}_ordered"] == []


def test_forks_are_told_with_both_nodes_and_counted_by_replay(found: Found) -> None:
    (race,) = found["forks"]
    assert (race["kernel"], race["other"]["kernel"], race["count"]) == ("scale", "scale", 3)
    assert (race["line"], race["other"]["line"]) == (4, 4)
    assert race["text"] == (
        f"reads {BYTES} bytes that another node of the graph writes: "
        "no path between node 0 (scale) and node 1 (scale)"
    )
    assert race["allocation"] == f"allocation of {BYTES} bytes"
    assert (race["access"], race["other"]["access"]) == ("read", "write")
    works = [side["work"].rsplit(" ", 1)[0] for side in (race, race["other"])]
    assert works == ["node 1 of a graph on stream", "node 0 of a graph on stream"]


def test_a_node_of_a_child_graph_is_told_by_both_numbers(found: Found) -> None:
    assert "between node 0/0 (scale) and node 1 (copy)" in found["child_graphs"][0]["text"]


def test_only_the_bytes_in_common_count(found: Found) -> None:
    (race,) = found["both_write"]
    assert race["text"].startswith("writes 4 bytes that another node")
    # Element 150: the last of the one kernel, in blocks of 128 threads, and the other's first.
    sides = sorted((side["block"], side["thread"]) for side in (race, race["other"]))
    assert sides == [([0, 0, 0], [0, 0, 0]), ([1, 0, 0], [22, 0, 0])]


def test_works_are_told_with_their_streams(found: Found) -> None:
    (race,) = found["second_reader"]
    assert (race["kernel"], race["block"], race["other"]["kernel"]) == ("memset", None, "scale")
    assert "nothing orders scale on stream" in race["text"]
    assert race["text"].endswith(f"{race['other']['work']} and memset on {race['work']}")
    assert race["work"].startswith("stream ")


def test_works_that_may_overlap_are_found_too(found: Found) -> None:
    assert [finding["kind"] for finding in found["overlapping"]] == ["node-race"]


def test_a_work_that_the_host_waited_for_is_kept_until_the_unordered_one_ran(found: Found) -> None:
    assert [finding["kind"] for finding in found["late_writer"]] == ["node-race"]


def test_two_works_race_once_for_each_memory(found: Found) -> None:
    races = {
        race["allocation"]: (race["access"], race["other"]["access"], race["text"].split(":")[0])
        for race in found["two_memories"]
    }
    text = f"{BYTES} bytes that work on another stream"
    assert races == {
        "first": ("write", "read", f"writes {text} reads"),
        "second": ("read", "write", f"reads {text} writes"),
    }


@pytest.mark.parametrize("name", ["copy_from_pageable", "copy_on_the_device"])
def test_a_synchronous_copy_that_outlives_its_call_is_told_so(found: Found, name: str) -> None:
    (race,) = found[name]
    assert (race["kernel"], race["other"]["kernel"]) == ("scale", "synchronous copy")
    assert race["text"].endswith(
        " (the copy's call may return before it has arrived; wait for its stream, or copy on the "
        "stream of what follows)"
    )


def test_synchronous_copies_that_end_as_they_return_are_in_order(found: Found) -> None:
    assert found["copies_that_are_waited_for"] == []


def test_sides_without_a_line_are_told_apart(found: Found) -> None:
    """A memset and a copy stand in no file: what they are, and the memory, makes them two."""
    races = [
        (race["kernel"], race["other"]["kernel"], race["count"]) for race in found["without_a_line"]
    ]
    assert races == [("memset", "memset", 1), ("copy", "memset", 2)]
