"""The check build on memory*.cu: each bug once, at its line, by name; nothing in the others."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hostdev.check_kit import CHECKS, Run, expected, run_check

pytestmark = pytest.mark.host

BUGS = expected(CHECKS / "memory.cu") | expected(CHECKS / "memory_names.cu")


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run_check(tmp_path_factory.mktemp("check"), CHECKS / "memory.py")


@pytest.mark.parametrize("kernel", BUGS)
def test_a_bug_is_found_at_its_line_and_a_clean_kernel_has_none(checked: Run, kernel: str) -> None:
    found = [(f["line"], f["kind"], f["allocation"]) for f in checked.of(kernel)]
    assert sorted(found, key=str) == sorted(BUGS[kernel], key=str), checked.out + checked.err


def test_the_file_has_both_sorts() -> None:
    assert sum(not bugs for bugs in BUGS.values()) == sum(k.endswith("_clean") for k in BUGS)


def test_a_finding_names_file_block_and_thread(checked: Run) -> None:
    (found,) = checked.of("past_end")
    assert Path(found["file"]) == CHECKS / "memory.cu"
    assert (found["block"], found["thread"]) == ([0, 0, 0], [31, 0, 0])
    assert found["other"] is None
    assert "just past the end of slice 'x' (128 bytes" in found["text"]
    assert found["count"] == 1


def test_a_place_is_told_once_and_counted(checked: Run) -> None:
    (found,) = checked.of("unwritten")
    assert found["count"] == 32
    assert "seen 32 times" in checked.out


def test_what_may_be_padding_is_told_with_its_remedy(checked: Run) -> None:
    (found,) = checked.of("half_a_number")
    assert "4 bytes of it, the others are written: if a struct's padding" in found["text"]
    (found,) = checked.of("copied_nothing")
    assert "padding" not in found["text"]


def test_what_is_wrong_with_a_kernels_own_memory_is_told(checked: Run) -> None:
    texts = [
        checked.of(name)[0]["text"] for name in ("heap_past_end", "heap_freed", "heap_freed_twice")
    ]
    own = "memory that a kernel allocated (16 bytes)"
    assert texts == [
        f"write of 4 bytes past the end of {own}",
        f"read of 4 bytes of {own} and freed",
        f"frees {own} a second time",
    ]


def test_reading_and_writing_in_one_line_is_told_as_both(checked: Run) -> None:
    (found,) = checked.of("update_past_end")
    assert (found["access"], found["count"]) == ("read and write", 1)
    assert found["text"].startswith("read and write of 4 bytes just past the end of slice 'y'")
    assert [f["access"] for f in checked.of("moved_past_end")] == ["read", "write"]


def test_a_local_arrays_index_is_told_with_name_and_type(checked: Run) -> None:
    (found,) = checked.of("local_write")
    assert found["text"] == "index 5 of the local array 'own' of type 'float [4]'"
    (found,) = checked.of("local_far_write")
    assert found["text"] == "index 1000000 of the local array 'own' of type 'int [4]'"


def test_an_address_without_memory_is_not_called_the_hosts(checked: Run) -> None:
    (found,) = checked.of("no_memory")
    assert "at 0x123456789000, where no memory is" in found["text"]


def test_a_second_block_does_not_see_the_shared_memory_of_the_first(checked: Run) -> None:
    (found,) = checked.of("scratch_unwritten")
    assert found["block"] == [1, 0, 0]


def test_the_output_is_like_a_compilers(checked: Run) -> None:
    line = next(number for number, _, _ in BUGS["host_read"])
    path = "tests/hostdev/checks/memory.cu"
    assert f"{path}:{line}: host-pointer: read of 4 bytes at 0x" in checked.out
    assert "    kernel host_read, block (0,0,0), thread (0,0,0)\n" in checked.out
    bugs = sum(map(len, BUGS.values()))
    kinds = len({kind for bugs_of in BUGS.values() for _, kind, _ in bugs_of})
    kernels = sum(bool(bugs_of) for bugs_of in BUGS.values())
    summary = f"{bugs} findings ({kinds} kinds) in {kernels} kernels, {len(BUGS) + 4} launches"
    assert checked.out.splitlines()[-1] == f"{summary} checked"
    assert checked.code == 1
