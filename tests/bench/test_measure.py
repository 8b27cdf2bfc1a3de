"""What the figures mean: interleaving, goals, agreement, busy time, growth."""

from __future__ import annotations

import math
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from lowgraph.bench import measure as measure_module
from lowgraph.bench import table
from lowgraph.bench.agreement import LATER, agree, tolerance
from lowgraph.bench.busy import busy_time
from lowgraph.bench.cases import Case, cases
from lowgraph.bench.config import checkout
from lowgraph.bench.measure import Limit, Measured, measure
from lowgraph.bench.result import fits, rows_of
from lowgraph.bench.rows import ROWS, Rival

BROKEN = """
import sys
from lowgraph.bench.serve import serve
class Arm:
    count = 0
    def facts(self): return {"losses": None}
    def burst(self, steps):
        self.count += 1
        if self.count > 5: raise MemoryError("the card is full")
        return {"wall_us": 10.0, "host_us": 1.0}
    def trace(self, steps): return {"busy_us": None}
sys.exit(serve(lambda spec: {spec["who"]: Arm()}))
"""


def case_for(kind: str = "cuda", name: str = "B2t") -> Case:
    """A case whose processes are not started."""
    return next(iter(cases(ROWS[name], kind, kind, checkout(), Path())))


def measured(
    chosen: list[Case], programs: Path = Path(), say: Any = print, burst_ms: float = 40.0,
    limit: Limit | None = None,
) -> list[list[Measured]]:  # fmt: skip
    limit = limit or Limit(None)
    return list(measure(chosen, programs, with_rivals=True, rounds=3, burst_ms=burst_ms, say=say,
                        limit=limit))  # fmt: skip


def arm(who: str = "lowgraph", **known: Any) -> Measured:
    facts = {"losses": known.pop("losses", [5.0, 4.0]), "precision": known.pop("precision", "bf16")}
    return Measured(who, facts, **{"wall": [100.0, 90.0, 120.0], "host": [3.0, 2.0, 9.0]} | known)


@pytest.mark.host
def test_a_rivals_failures_are_its_rows(tmp_path: Path) -> None:
    """One dies in a burst, one at the start; ours is measured all the same."""
    programs = tmp_path / "benchmarks"
    (programs / "rivals").mkdir(parents=True)
    shutil.copy(checkout() / "chain.cu", programs)
    (programs / "rivals" / "later.py").write_text(BROKEN)
    (programs / "rivals" / "never.py").write_text("raise SystemExit('no such library')")
    rivals = (Rival("later", "later.py", ""), Rival("never", "never.py", ""))
    row = replace(ROWS["B0"], rivals=rivals, counts={"host": (5,)})
    (case,) = cases(row, "host", "host", programs, tmp_path)
    said: list[str] = []
    (found,) = measured([case], programs, said.append, burst_ms=1.0)
    assert [m.who for m in found] == ["lowgraph", "bare cuGraphLaunch", "later", "never"]
    ours, bare, later, never = rows_of(case, found)
    assert len(found[0].wall) == len(found[0].host) == len(found[1].host) == 3
    assert ours["error"] == bare["error"] == ""
    assert "the card is full" in later["error"]
    assert later["us_median"] == 1.0, "the rounds that it ran stay"
    assert "no such library" in never["error"]
    assert never["us_median"] is None
    text = table.text([ours, bare, later, never], [])
    (line,) = [line for line in text.splitlines() if "never" in line and "failed" in line]
    assert "no such library" in line
    assert any("B0 never: failed: the process ended with 1: no such library" in line
               for line in said)  # fmt: skip


class FakeProcess:
    """Answers at once, and notes who was asked for a burst of the wall's kind."""

    asked: ClassVar[list[str]] = []

    def ask(self, timeout: float, **request: Any) -> Any:
        if request["do"] == "open":
            return {request["spec"]["who"]: {}}
        if request["do"] == "burst" and request["steps"] == 400:
            self.asked.append(request["who"])
        return {"wall_us": 100.0, "host_us": 1.0, "busy_us": None}

    def close(self) -> None:
        self.asked.append("closed")


def test_arms_take_turns_and_each_begins_in_its_round(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure_module, "start", lambda *given: FakeProcess())
    case = case_for()
    case = replace(case, row=replace(case.row, rivals=case.row.rivals[:2]))
    monkeypatch.setattr(FakeProcess, "asked", [])
    measured([case])
    a, b, c = "lowgraph", *(rival.who for rival in case.row.rivals)
    assert FakeProcess.asked == [a, b, c, b, c, a, c, a, b] + ["closed"] * 3


def test_rivals_of_all_cases_open_before_any_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []

    class Noted(FakeProcess):
        def ask(self, timeout: float, **request: Any) -> Any:
            who = request["spec"]["who"] if request["do"] == "open" else request["who"]
            events.append(f"{request['do']} {who}")
            return super().ask(timeout, **request)

    monkeypatch.setattr(measure_module, "start", lambda *given: Noted())
    cases_ = [case_for(name=name) for name in ("B1", "B3")]
    found = measured(cases_)
    assert [[m.who for m in arms] for arms in found] == [
        ["lowgraph", *(rival.who for rival in case.row.rivals)] for case in cases_
    ]
    opened = [number for number, event in enumerate(events) if event == "open torch GX"]
    timed = [number for number, event in enumerate(events) if event.startswith("burst")]
    assert len(opened) == 2
    assert max(opened) < min(timed)


def test_when_the_time_is_over_cases_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*given: Any) -> Any:
        raise AssertionError("no process is started any more")

    monkeypatch.setattr(measure_module, "start", never)
    assert measured([case_for(), case_for()], limit=Limit(-1.0)) == [[], []]
    late: list[float] = []

    class Timed(FakeProcess):
        def ask(self, timeout: float, **request: Any) -> Any:
            if request["do"] == "open":
                late.append(timeout)
            return super().ask(timeout, **request)

    monkeypatch.setattr(measure_module, "start", lambda *given: Timed())
    measured([case_for()], limit=Limit(10.0))
    *rivals, ours = late
    assert rivals
    assert all(250 < seconds <= 300 for seconds in rivals), "half of what is left"
    assert ours == 900, "ours opens whatever it takes"
    assert 0 < Limit(10.0).opening() <= 300 < Limit(10.0).left() <= 600
    assert Limit(None).opening() == 900


def test_medians_and_goal_are_of_the_wall() -> None:
    row = rows_of(case_for(), [arm()])[0]
    assert (row["us_median"], row["us_min"], row["us_max"]) == (100.0, 90.0, 120.0)
    assert (row["goal_us"], row["goal_met"]) == (150.0, True)
    slower = rows_of(case_for(), [arm(wall=[151.0])])[0]
    assert slower["goal_met"] is False
    assert "goal_us" not in rows_of(case_for("host"), [arm()])[0]


def test_a_chains_goal_is_above_the_bare_call_round_by_round() -> None:
    case = case_for(name="B0")
    found = [arm(host=[10.0, 30.0, 20.0]), arm("bare cuGraphLaunch", host=[8.0, 28.0, 10.0])]
    row = rows_of(case, found)[0]
    assert row["us_median"] == 20.0, "the host's"
    assert (row["extra_us"], row["goal_met"]) == (2.0, True)
    found[1].host = [5.0, 25.0, 10.0]
    assert rows_of(case, found)[0]["goal_met"] is False
    assert rows_of(case, found[:1])[0]["goal_met"] is None


def test_idle_is_what_the_busy_time_leaves_of_the_wall() -> None:
    row = rows_of(case_for(), [arm(trace={"busy_us": 75.0, "device_ops": 12})])[0]
    assert (row["idle_share"], row["device_ops"]) == (0.25, 12)
    assert rows_of(case_for(), [arm(trace={"busy_us": 130.0})])[0]["idle_share"] == 0.0
    without = rows_of(case_for(), [arm(trace={"busy_us": None, "why": "no tracer"})])[0]
    assert (without["idle_share"], without["busy_why"]) == (None, "no tracer")


def test_overlapping_work_is_busy_once_and_annotations_never() -> None:
    def event(ts: float, dur: float, cat: str = "kernel") -> dict[str, Any]:
        return {"ph": "X", "cat": cat, "ts": ts, "dur": dur}

    events = [
        event(20, 5, "gpu_memcpy"), event(0, 10), event(5, 10), event(6, 2),
        event(0, 100, "gpu_user_annotation"), event(0, 50, "cuda_runtime"), {"ph": "M"},
    ]  # fmt: skip
    assert busy_time(events) == (20.0, 4)
    assert busy_time([]) == (0.0, 0)


def test_correct_asks_everyone_who_has_losses() -> None:
    good, bad = arm("good"), arm("bad", losses=[5.0, 4.9])
    silent = arm("silent", losses=None)
    found = [row["correct"] for row in rows_of(case_for(), [arm(), good, bad, silent])]
    assert found == [False, True, False, None]
    assert [row["correct"] for row in rows_of(case_for(), [arm(), good])] == [True, True]
    assert rows_of(case_for(), [arm()])[0]["correct"] is None


def test_agreement() -> None:
    assert agree([5.0, 4.0], [5.0, 4.0], 0.0)
    assert agree([5.0, 4.0], [5.0499, 4.19], 0.01)
    assert not agree([5.0, 4.0], [5.06, 4.0], 0.01)
    assert not agree([5.0, 4.0], [5.0, 4.0 * (1 + 1.2 * LATER * 0.01)], 0.01)
    assert not agree([5.0, math.nan], [5.0, math.nan], 1.0)
    assert not agree([], [], 1.0)
    assert not agree([5.0], [5.0, 4.0], 1.0)
    assert tolerance("fp32", "bf16", None) == tolerance("bf16") > tolerance("tf32")


def test_our_memory_is_held_against_the_strongest_rivals() -> None:
    def row(ours: int | None, theirs: int | None) -> Any:
        found = [arm(), arm("torch eager"), arm("torch GX")]
        for each, nbytes in zip(found, (ours, 1, theirs), strict=True):
            each.facts["memory_bytes"] = nbytes
        return rows_of(case_for(), found)[0]

    assert row(300, 300)["memory_met"] is True
    more = row(301, 300)
    assert more["memory_met"] is False
    assert "memory: MORE than torch GX" in table.text([more], [])
    assert "memory_met" not in row(300, None)
    assert "memory_met" not in row(None, 300)


def test_every_row_of_the_update_and_of_training_has_a_goal() -> None:
    goals = {name: row.goal_us for name, row in ROWS.items()}
    assert goals == {"B0": 3, "B1": 80, "B2t": 150, "B2s": 600, "B3": 150, "B6": 17_000,
                     "B7": 950, "B7e": 1250}  # fmt: skip


def test_growth_is_found_where_it_is_linear() -> None:
    rows = [
        {"id": "B0", "who": "w", "size": n, "error": "", "host_us": 3.0 + 0.5 * n, "wall_us": None}
        for n in (10, 100, 1000)
    ]
    rows.append({**rows[0], "error": "failed", "host_us": 1e6})
    (fit,) = fits(rows)
    assert fit["what"] == "host_us"
    assert (fit["fixed"], fit["per_node"]) == pytest.approx((3.0, 0.5))
    assert fit["worst"] < 1e-6
    rows[1]["host_us"] += 10.0
    assert fits(rows)[0]["worst"] > 1.0
