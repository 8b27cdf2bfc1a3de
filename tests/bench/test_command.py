"""`python -m lowgraph bench`: its JSON, its words, and its refusals."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lowgraph.bench import config as bench_config
from lowgraph.bench.config import BenchConfig, checkout
from lowgraph.errors import ConfigError
from tests.support.process import ROOT, environment, run_command

ROW_KEYS = {"id", "config", "who", "us_median", "us_min", "us_max", "nodes", "idle_share"}
SMALL = ("--rounds", "2", "--burst-ms", "1", "--no-rivals")


@pytest.fixture
def spec(request: pytest.FixtureRequest) -> str:
    return str(request.config.getoption("--device"))


def bench(*flags: str) -> subprocess.CompletedProcess[str]:
    return run_command("-m", "lowgraph", "bench", *flags, timeout=280)


@pytest.mark.both
def test_the_launch_suite(spec: str, tmp_path: Path) -> None:
    file = tmp_path / "bench.json"
    plots = tmp_path / "new" / "plots"  # made by the command
    flags = ("--device", spec, "--suite", "launch", "--json", str(file), "--plot", str(plots))
    done = bench(*flags, *SMALL)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(file.read_text())
    assert found.keys() >= {"rows", "gpu", "driver", "commit", "versions", "fits"}
    assert found["complete"] is True
    rows = found["rows"]
    assert all(row.keys() >= ROW_KEYS for row in rows)
    assert {row["id"] for row in rows} == {"B0"}
    for ours, bare in zip(rows[::2], rows[1::2], strict=True):
        assert (ours["who"], bare["who"]) == ("lowgraph", "bare cuGraphLaunch")
        assert ours["nodes"] == bare["nodes"] == ours["size"]
        for row in (ours, bare):
            assert 0 < row["us_min"] <= row["us_median"] <= row["us_max"]
            assert f"{row['us_median']:.1f}" in done.stdout
        for cost in ("capture_us", "instantiate_us", "upload_us", "update_us"):
            assert ours[cost] > 0, cost
    assert {fit["what"] for fit in found["fits"]} >= {"host_us", "instantiate_us"}
    assert (plots / "chain.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.host
def test_train_and_tail_in_small(tmp_path: Path) -> None:
    file = tmp_path / "bench.json"
    done = bench(
        "--device", "host", "--rows", "B1,B2s,B3,B7e", "--json", str(file), *SMALL
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    rows = {row["id"]: row for row in json.loads(file.read_text())["rows"]}
    assert rows.keys() == {"B1", "B3", "B7e"}
    assert "B2s charlm small: left out, too large for the host device" in done.stdout
    assert "rivals: none on the host device" in done.stdout
    for row in rows.values():
        assert row["who"] == "lowgraph"
        assert row["us_median"] > 0
        assert row["nodes"] > 0
        assert row["memory_bytes"] > 0
        assert row["idle_share"] is None, "nothing traces the host device"
        assert row["correct"] is None, "there is nobody to agree with"
        assert "goal_us" not in row, "goals are a GPU's"
    for name in ("B1", "B3"):
        losses = rows[name]["losses"]
        assert len(losses) == 16
        assert losses[-1] < losses[0]


@pytest.mark.host
def test_rows_that_the_time_does_not_reach_are_named(tmp_path: Path) -> None:
    file = tmp_path / "bench.json"
    flags = ("--device", "host", "--rows", "B0,B1", "--minutes", "0.002", "--json", str(file))
    done = bench(*flags, *SMALL)
    assert done.returncode == 1
    assert "no time was left for" in done.stderr
    assert "fewer --rows or more --minutes" in done.stderr
    found = json.loads(file.read_text())
    assert found["complete"] is False
    assert any(name.startswith("B1 (mlp nano") for name in found["left_out"])


@pytest.mark.host
def test_a_killed_run_keeps_its_rows(tmp_path: Path) -> None:
    file = tmp_path / "bench.json"
    command = [sys.executable, "-m", "lowgraph", "bench", "--device", "host", "--suite", "launch"]
    process = subprocess.Popen(
        [*command, *SMALL, "--json", str(file)], cwd=ROOT, env=environment(),
        stdout=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        deadline = time.monotonic() + 120
        while not file.exists() and time.monotonic() < deadline:
            time.sleep(0.02)
    finally:
        process.kill()
        process.wait()
    found = json.loads(file.read_text())
    assert found["complete"] is False
    assert [row["who"] for row in found["rows"]][:2] == ["lowgraph", "bare cuGraphLaunch"]
    assert found["rows"][0]["us_median"] > 0


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--suite", "speed"), ("speed", "launch, train, tail")),
        (("--rows", "B0,B99"), ("B99", "B2t")),
        (("--rows", "B0", "--suite", "train"), ("B0", "train")),
        (("--json", "nowhere/x.json"), ("--json", "create it")),
        (("--json", "."), ("--json .", "is a folder; give a file name")),
        (("--plot", "README.md"), ("--plot README.md", "name a folder")),
        (("--rounds", "0"), ("--rounds", "above 0")),
        (("--burst-ms", "inf"), ("--burst-ms", "finite")),
        (("--minutes", "0"), ("--minutes 0", "above 0")),
        (("--device", "gpu7"), ("gpu7", "cuda:N")),
    ],
)
def test_bad_flags_are_one_line_and_exit_code_2(
    flags: tuple[str, ...], words: tuple[str, ...]
) -> None:
    done = bench(*flags)
    assert done.returncode == 2, done.stdout + done.stderr
    (line,) = done.stderr.strip().splitlines()
    for word in words:
        assert word in line


def test_without_a_checkout_it_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert checkout() == ROOT / "benchmarks"
    monkeypatch.setattr(bench_config, "__file__", str(tmp_path / "lowgraph/bench/config.py"))
    with pytest.raises(ConfigError, match="clone the repository"):
        checkout()


def test_rows_are_chosen_in_the_order_of_the_table() -> None:
    assert [row.id for row in BenchConfig(rows=("B3", "B0")).chosen()] == ["B0", "B3"]
    assert {row.suite for row in BenchConfig(suite="tail").chosen()} == {"tail"}
