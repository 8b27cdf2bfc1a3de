"""The atlas's log: its lines, what is no log, and its warm window."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lowgraph.errors import ConfigError
from lowgraph.train.atlas import Row, read_rows, summarise, summary_text, write_rows
from lowgraph.train.atlas.rows import in_order

HEADER = "step\tstage\tlaunches\tnodes\tus\n"


def _log(steps: int, seed: int) -> list[Row]:
    """Step 1 is eager. Outer stages are the sums of what is in them and of an own microsecond."""
    generator = np.random.default_rng(seed)
    rows = []
    for step in range(1, steps + 1):
        b, c = (float(us) for us in generator.uniform(1, 9, 2).round(3))
        counts = [(4, 0), (2, 0), (1, 0), (1, 0)] if step == 1 else [(0, 5), (0, 2), (0, 2), (0, 1)]
        values = [("a", b + c + 1), ("a/b", b), ("a/c", c), ("", 0.5)]
        rows += [
            Row(step, stage, *count, us) for (stage, us), count in zip(values, counts, strict=True)
        ]
    return rows


@pytest.mark.parametrize("seed", range(3))
def test_what_is_written_is_read(tmp_path: Path, seed: int) -> None:
    rows = [
        *_log(5, seed),
        Row(6, "tab\tline\n\r back\\t\\", 1, 2, 3.25),
        Row(6, "größe", 0, 0, 0.0),
    ]
    path = tmp_path / "a.tsv"
    write_rows(path, rows)
    assert path.read_text().startswith(HEADER + "1\ta\t4\t0\t")
    assert path.read_bytes().count(b"\n") == len(rows) + 1
    found = read_rows(path)
    assert [(r.step, r.stage, r.launches, r.nodes) for r in found] == [
        (r.step, r.stage, r.launches, r.nodes) for r in rows
    ]
    # Three decimals are written.
    np.testing.assert_allclose([r.us for r in found], [r.us for r in rows], atol=5e-4, rtol=0)


@pytest.mark.parametrize("steps", [1, 2, 3, 4, 30, 31])
@pytest.mark.parametrize("seed", range(3))
def test_the_warm_window_is_the_last_third(steps: int, seed: int) -> None:
    rows = _log(steps, seed)
    window = -(-steps // 3)
    found = {one.stage: one for one in summarise(rows)}
    assert list(found) == ["a", "a/b", "a/c", ""]
    for stage, one in found.items():
        us = np.array([row.us for row in rows if row.stage == stage])[-window:]
        assert one.steps == window
        assert one.us == pytest.approx(us.mean())
        assert (one.us_min, one.us_max) == (us.min(), us.max())
    a = found["a"]
    assert a.own_us == pytest.approx(1.0), "what the log was made with"
    assert (a.launches, a.own_launches) == (4, 1)
    assert (a.nodes, a.own_nodes) == ((5, 1) if steps > 1 else (0, 0))
    assert a.outermost and not found["a/b"].outermost


def test_a_stage_that_the_window_has_not_is_there_with_nothing() -> None:
    found = summarise([Row(1, "once", 1, 0, 5.0), *(Row(n, "a", 0, 1, 1.0) for n in (1, 2, 3))])
    assert [(one.stage, one.us, one.launches) for one in found] == [("once", 0.0, 1), ("a", 1.0, 0)]


def test_a_log_of_some_steps_alone_has_a_third_of_those() -> None:
    rows = [Row(step, "a", 0, 1, float(step)) for step in (500, 2, 100, 510, 900)]
    (one,) = summarise(rows)
    assert (one.steps, one.us) == (2, (510 + 900) / 2)


def test_stages_stand_behind_those_that_they_are_in() -> None:
    given = ["b", "a", "a/z", "c/inner", "b/late", "a/y", "c", "b/late/x", "a"]
    assert in_order(given) == ["b", "b/late", "b/late/x", "a", "a/z", "a/y", "c", "c/inner"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "its first line is not step, stage"),
        ("a,b\n1,2\n", "atlas --tsv F"),
        (HEADER, "a log without a step"),
        (HEADER + "1\ta\t1\t0", ":2: the last line is cut off"),
        (HEADER + "1\ta\t1\t0\t1.0\n2\ta\t1\n", ":3: not a row of the atlas"),
        (HEADER + "0\ta\t1\t0\t1.0\n", ":2: not a row"),
        (HEADER + "1\ta\t-1\t0\t1.0\n", ":2: not a row"),
        (HEADER + "1\ta\t1\t0\tnan\n", ":2: not a row"),
        (HEADER + "1\ta\t1\t0\tinf\n", ":2: not a row"),
        (HEADER + "1\ta\\q\t1\t0\t1.0\n", ":2: not a row"),
    ],
)
def test_what_is_no_log_is_refused_with_its_line(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "a.tsv"
    path.write_text(text)
    with pytest.raises(ConfigError) as got:
        read_rows(path)
    assert str(path) in str(got.value) and told in str(got.value)


def test_a_file_that_cannot_be_read_or_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    for path in (tmp_path / "none.tsv", tmp_path, tmp_path / "binary"):
        with pytest.raises(ConfigError, match=str(path)):
            read_rows(path)
    with pytest.raises(ConfigError, match="--tsv"):
        write_rows(tmp_path / "none" / "a.tsv", _log(1, 0))


def test_logs_side_by_side() -> None:
    one, two = summarise(_log(6, 0)), summarise([*_log(6, 1), Row(6, "new", 0, 3, 2.0)])
    lines = summary_text(["x.tsv", "y.tsv"], [one, two])
    assert lines[:2] == ["log 1: x.tsv, 2 warm steps", "log 2: y.tsv, 2 warm steps"]
    table = {line.split()[0]: line.split()[1:] for line in lines[3:]}
    ratio = two[0].us / one[0].us
    assert table["a"] == [f"{one[0].us:.1f}", "5", f"{two[0].us:.1f}", "5", f"{ratio:.3f}"]
    assert table["new"] == ["-", "-", "2.0", "3"]
    other = summarise([Row(1, "a", 1, 0, 1.0), Row(1, "a/other", 1, 0, 1.0)])
    names = [line.split()[0] for line in summary_text(["x", "z"], [one, other])[3:]]
    assert names == ["a", "b", "c", "other", "(none)", "step"], "behind the stage that it is in"
    assert table["step"] == [f"{one[0].us + 0.5:.1f}", f"{two[0].us + 2.5:.1f}"]
