"""What `Branches` asks of the side streams, and when it gives back what they read."""

from __future__ import annotations

from typing import Any

import pytest

from lowgraph.errors import ConfigError
from lowgraph.models.branches import Branches, branch_count, spare_streams


class _Sides:
    """Side streams that note what is asked of them."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int]] = []

    def fork(self, stream: int, index: int) -> int:
        self.asked.append(("fork", index))
        return 100 + index

    def mark(self, index: int) -> None:
        self.asked.append(("mark", index))

    def wait_for_mark(self, stream: int, index: int) -> None:
        self.asked.append(("wait", index))

    def join(self, stream: int, index: int) -> None:
        self.asked.append(("join", index))


class _Blas:
    def __init__(self) -> None:
        self.sides = _Sides()


def _branches(count: int) -> tuple[Branches, list[tuple[str, int]], list[Any]]:
    blas, dropped = _Blas(), list[Any]()
    made = Branches(blas, 7, count, lambda *pieces: dropped.extend(pieces))  # type: ignore[arg-type]
    return made, blas.sides.asked, dropped


def test_what_a_branch_reads_is_kept_until_the_join() -> None:
    branches, asked, dropped = _branches(2)
    assert [branches.fork() for _ in range(3)] == [100, 101, 100]
    branches.drop("x", "dy")
    assert not dropped
    branches.join()
    assert dropped == ["x", "dy"]
    assert asked[-2:] == [("join", 0), ("join", 1)]


def test_a_mark_is_not_moved_by_what_is_forked_behind_it() -> None:
    branches, asked, _ = _branches(2)
    branches.fork()
    mark = branches.mark()
    branches.fork()
    branches.wait_for(mark)
    assert asked == [("fork", 0), ("mark", 0), ("fork", 1), ("wait", 0)]


def test_a_mark_is_behind_all_that_was_forked() -> None:
    branches, asked, _ = _branches(2)
    for _ in range(3):
        branches.fork()
    branches.wait_for(branches.mark())
    assert asked[3:] == [("mark", 0), ("mark", 1), ("wait", 0), ("wait", 1)]


def test_what_was_read_before_a_mark_is_given_back_behind_it() -> None:
    branches, _, dropped = _branches(1)
    branches.fork()
    branches.drop("early")
    branches.fork()
    branches.drop("marked")
    mark = branches.mark()
    branches.drop("sent to the same branch behind the mark")
    branches.fork()
    branches.drop("late")
    branches.wait_for(mark)
    assert dropped == ["early", "marked"]
    branches.join()
    assert dropped[2:] == ["sent to the same branch behind the mark", "late"]


def test_what_a_spare_stream_reads_is_behind_no_mark() -> None:
    branches, _, dropped = _branches(1)
    branches.fork()
    branches.drop("marked")
    branches.fork_spare()
    branches.drop("spare")
    branches.wait_for(branches.mark())
    assert dropped == ["marked"]
    branches.join()
    assert dropped == ["marked", "spare"]


def test_a_side_stream_without_work_is_not_joined() -> None:
    """Its event was not recorded in the capture, and to wait for it would break that."""
    branches, asked, _ = _branches(3)
    branches.fork()
    branches.join()
    assert asked == [("fork", 0), ("join", 0)]


def test_a_spare_stream_is_behind_the_others_and_joined() -> None:
    branches, asked, _ = _branches(2)
    branches.fork()
    assert branches.fork_spare() == 102
    branches.join()
    assert asked == [("fork", 0), ("fork", 2), ("join", 0), ("join", 2)]
    assert [spare_streams(count) for count in (0, 1, 2)] == [0, 2, 3]
    assert _branches(0)[0].fork_spare() == 7


def test_without_branches_all_is_on_the_one_stream() -> None:
    branches, asked, dropped = _branches(0)
    assert branches.fork() == 7
    branches.wait_for(branches.mark())
    branches.drop("x")
    assert dropped == ["x"]
    branches.join()
    assert not asked


def test_how_many_suit_a_model() -> None:
    assert [branch_count(None, width) for width in (8, 512, 513, 768)] == [1, 1, 0, 0]
    assert branch_count(3, 768) == 3
    assert branch_count(0, 64) == 0


def test_branches_that_cannot_be_are_refused() -> None:
    with pytest.raises(ConfigError, match="must be an integer of at least 0, got -1"):
        branch_count(-1, 64)
