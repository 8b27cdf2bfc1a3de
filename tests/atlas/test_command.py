"""`python -m lowgraph atlas`: its files, and what it refuses."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lowgraph.cli import main
from lowgraph.driver import Device
from lowgraph.train.atlas import read_rows, summarise
from lowgraph.train.parts import Parts
from tests.train.runs import ROOT, environment, micro_corpus, micro_plan

STEPS = 6


@pytest.fixture
def spec(request: pytest.FixtureRequest) -> str:
    return str(request.config.getoption("--device"))


def _atlas(*flags: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "lowgraph", "atlas", *flags],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=environment(),
        check=False,
        timeout=240,
    )


@pytest.mark.both
def test_an_atlas_of_nano(spec: str, tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("a.json", "a.tsv", "a.png")]
    flags = ("--device", spec, "--preset", "nano", "--batch", "1", "--steps", str(STEPS))
    outputs = ("--json", str(files[0]), "--tsv", str(files[1]), "--plot", str(files[2]))
    done = _atlas(*flags, *outputs)
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(files[0].read_text())
    stages = {one["stage"]: one for one in found["stages"]}
    assert {"forward", "forward/attention", "loss", "backward", "optimizer"} <= stages.keys()
    for one in stages.values():
        assert {"stage", "launches", "nodes", "us"} <= one.keys()
    outer = [one for name, one in stages.items() if "/" not in name]
    for column in ("launches", "nodes"):
        assert sum(one[column] for one in outer) == found[column] > 0
    assert found["nodes"] == found["launches"], "the step is made of kernels alone"
    assert found["why_no_graph"] == ""
    assert [one["off"] for one in found["arms"]] == [["optimizer"], ["ring"]]
    for arm, stage in zip(found["arms"], ("optimizer", "bookkeeping/ring"), strict=True):
        assert arm["nodes"] == {stage: stages[stage]["nodes"]}
    assert found["crosses"][0]["joint_nodes"] == {}
    rows = read_rows(files[1])
    assert {row.step for row in rows} == set(range(1, STEPS + 1))
    for one in summarise(rows):
        assert stages[one.stage]["nodes"] == one.nodes
        assert stages[one.stage]["us"] == pytest.approx(one.us, abs=1e-3), "as the log rounds"
    assert files[2].read_bytes().startswith(b"\x89PNG")
    for word in (
        "ranked by share",
        "ceiling, graph",
        "merge roadmap",
        "undetermined",
        "the timers",
    ):
        assert word in done.stdout


def test_counts_are_the_trainers(device: Device, tmp_path: Path) -> None:
    """What the step's own report counts by another way, and what passes below us."""
    from lowgraph.train.atlas import Subject, measure

    parts = Parts(device, micro_plan(), micro_corpus(tmp_path), graph=True, ring_slots=2)
    subject = Subject(parts.body, device, parts.pool, parts.library, parts.stream)
    found = measure(subject, 3)
    parts.graph_step()
    parts.graph_step()
    report = parts.graph_step.report()
    with device.count_calls() as below:
        subject.eager()
    assert found.nodes.total() == report.nodes == report.kernels
    assert found.launches.total() == report.launches_eager_step
    own: dict[str, int] = {}
    for (stage, _), count in found.nodes.items():
        own[stage] = own.get(stage, 0) + count
    assert own == report.stages
    if below.counted_by:
        launches = sum(n for name, n in below.calls.items() if name.startswith("cuLaunchKernel"))
        assert launches == found.launches.total()
    parts.close()


def _log(path: Path, us: float) -> str:
    path.write_text(f"step\tstage\tlaunches\tnodes\tus\n1\tforward\t2\t0\t{us}\n")
    return str(path)


def test_a_summary_sets_logs_side_by_side(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    logs = [_log(tmp_path / "a.tsv", 2.0), _log(tmp_path / "b.tsv", 5.0)]
    files = tmp_path / "s.json", tmp_path / "s.png"
    code = main(["atlas", "summary", *logs, "--json", str(files[0]), "--plot", str(files[1])])
    said = capsys.readouterr()
    assert code == 0 and "2.500" in said.out, said.err
    found = json.loads(files[0].read_text())["logs"]
    assert [one["log"] for one in found] == logs
    assert [one["stages"][0]["us"] for one in found] == [2.0, 5.0]
    assert files[1].read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (("--steps", "2"), "--steps must be at least 3, got 2"),
        (("--tsv", "{}/none/a.tsv"), "--tsv {}/none/a.tsv: {}/none is no folder that is there"),
        (("--tsv", "{}"), "--tsv {} is a folder; give a file name"),
        (("--tsv", "{}/a", "--json", "{}/a"), "--tsv and --json must be different paths"),
        (("--tsv", "{}/a.png", "--plot", "{}/a.png"), "--tsv and --plot must be different"),
        (("--plot", "{}/a.what"), "use a name that ends in"),
        (("--json", "{}/none/a"), "--json {}/none/a"),
        (("--model", "gpt5"), "unknown model 'gpt5'"),
        (("--tsv", ""), "the path is empty"),
        (("summary",), "the following arguments are required: F.tsv"),
        (("summary", "{}/none.tsv"), "{}/none.tsv: No such file"),
        (("summary", "{}/text"), "{}/text: not a log of the atlas"),
        (("summary", "{}/a.tsv", "--json", "{}/x", "--plot", "{}/x"), "must be different paths"),
        (("summary", "{}/a.tsv", "--json", "{}/none/x"), "--json {}/none/x: {}/none is no"),
        (("sum",), "invalid choice: 'sum'"),
    ],
)
def test_bad_input_is_refused_before_the_device(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    flags: tuple[str, ...],
    told: str,
) -> None:
    from lowgraph.train.atlas import run

    def opened(spec: str) -> None:
        pytest.fail("the device was opened")

    monkeypatch.setattr(run, "open_device", opened)
    (tmp_path / "text").write_text("words\n")
    _log(tmp_path / "a.tsv", 1.0)
    before = sorted(tmp_path.iterdir())
    code = main(["atlas", *(flag.replace("{}", str(tmp_path)) for flag in flags)])
    said = capsys.readouterr()
    assert code == 2 and said.out == ""
    assert said.err.startswith("error: ") and said.err.count("\n") == 1
    assert told.replace("{}", str(tmp_path)) in said.err
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.both
def test_an_arm_that_the_step_has_not_is_refused(spec: str) -> None:
    done = _atlas("--device", spec, "--preset", "nano", "--batch", "1", "--steps", "3",
                  "--arms", "ema")  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.endswith("error: --arms ema: no such arm; the step has optimizer, ring\n")
