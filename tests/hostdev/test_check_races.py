"""The check build finds each race, wrong barrier and wrong mask, and nothing in its clean twin."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.hostdev.check_kit import run_python
from tests.hostdev.race_cases import FILES, GLOBAL, KERNELS, SHARED, line_of

pytestmark = pytest.mark.host
Found = dict[str, list[dict[str, Any]]]

KINDS = {
    **dict.fromkeys(SHARED, "shared-race"),
    **dict.fromkeys(("global", *GLOBAL), "global-race"),
    **dict.fromkeys(("branches", "early_return", "counts", "stuck"), "divergent-barrier"),
    "barrier_first": "divergent-barrier",
    "left_out": "shuffle-mask",
    **dict.fromkeys(("outside", "returned", "unnamed", "crossed", "deserted"), "shuffle-mask"),
}
PAIRS = [(file, name) for file, cases in FILES.items() for name in cases]


@pytest.fixture(scope="module")
def found() -> Found:
    done = run_python("-m", "tests.hostdev.race_cases", *FILES, LOWGRAPH_HOST_CHECK="1")
    assert done.returncode == 0, done.stderr
    results: dict[str, Found] = json.loads(done.stdout)
    return {kernel: rows for rows_of in results.values() for kernel, rows in rows_of.items()}


def _races(findings: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without the reads of what a missing barrier left unwritten, which are found too."""
    return [finding for finding in findings if finding["kind"] != "uninitialised-read"]


def _lines(finding: dict[str, Any]) -> set[int]:
    other = finding["other"]
    lines = {finding["line"], other["line"] if other else None}
    return lines - {None}  # of a thread that has returned, or is on its way


def _marks(file: str, name: str) -> set[int]:
    text = (KERNELS / f"{file}.cu").read_text()
    return {line_of(file, f"{name} {i}") for i in (1, 2) if f"// {name} {i}" in text}


@pytest.mark.parametrize(("file", "name"), PAIRS)
def test_the_wrong_kernel_is_found_at_its_lines(found: Found, file: str, name: str) -> None:
    wrong = _races(found.get(f"{name}_racy") or found[f"{name}_wrong"])
    assert {finding["kind"] for finding in wrong} == {KINDS[name]}
    assert _marks(file, name) in [_lines(finding) for finding in wrong]
    assert all(Path(finding["file"]).name == f"{file}.cu" for finding in wrong)


@pytest.mark.parametrize(("file", "name"), PAIRS)
def test_nothing_is_found_in_its_twin(found: Found, file: str, name: str) -> None:
    assert found[f"{name}_clean"] == []


def test_the_text_tells_what_can_be_known(found: Found) -> None:
    (smooth,) = found["smooth_racy"]
    assert "arguments 0 and 1 (from 0) point into the same memory" in smooth["text"]
    same, other = found["same_value_racy"][0]["text"], found["other_value_racy"][0]["text"]
    assert same == f"{other}; both wrote the same value"
    (early,) = found["early_return_wrong"]
    assert "28 of the block's 64 threads returned before this __syncthreads()" in early["text"]
    assert (early["block"], early["thread"]) == ([1, 0, 0], [0, 0, 0])
    gone = early["other"]
    assert (gone["block"], gone["thread"], gone["line"]) == ([1, 0, 0], [36, 0, 0], None)
    (deserted,) = found["deserted_wrong"]
    assert "names lane 20, which called a warp operation with the mask fff00000" in deserted["text"]
    assert (deserted["thread"], deserted["other"]["thread"]) == ([0, 0, 0], [20, 0, 0])
    (left_out,) = found["left_out_wrong"]
    assert "the mask ffffffff names lane 16, which has left this operation out" in left_out["text"]
    assert (left_out["thread"], left_out["other"]["thread"]) == ([32, 0, 0], [48, 0, 0])


def test_a_race_names_both_blocks_and_threads(found: Found) -> None:
    (mirror,) = _races(found["mirror_racy"])[:1]
    sides = [mirror["thread"], mirror["other"]["thread"]]
    assert sum(x for x, _, _ in sides) == 63
    (chain,) = found["chain_racy"]
    assert (chain["block"], chain["other"]["block"]) == ([1, 0, 0], [0, 0, 0])


def test_a_race_names_its_memory_and_what_each_side_did(found: Found) -> None:
    for kernel, memory in (("mirror_racy", "tile"), ("dynamic_racy", "dynamic shared memory")):
        for race in _races(found[kernel]):
            assert race["allocation"] == memory
            assert f"of {memory} that" in race["text"]
            assert sorted((race["access"], race["other"]["access"])) == ["read", "write"]
            assert race["work"] is None


def test_an_atomic_of_block_scope_is_named_as_the_reason(found: Found) -> None:
    (race,) = found["block_scope_racy"]
    assert race["text"].endswith("an atomic of block scope (..._block) holds within its block only")
