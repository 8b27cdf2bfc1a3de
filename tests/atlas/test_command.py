"""`python -m lowgraph atlas`: its files, and what it refuses."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from lowgraph.cli import main
from lowgraph.driver import Device
from lowgraph.train.atlas import read_rows, summarise
from lowgraph.train.atlas.rows import Row, write_rows
from lowgraph.train.parts import Parts
from tests.support.process import run_command
from tests.train.runs import micro_corpus, micro_plan

STEPS = 6


@pytest.fixture
def spec(request: pytest.FixtureRequest) -> str:
    return str(request.config.getoption("--device"))


def _atlas(*flags: str) -> subprocess.CompletedProcess[str]:
    return run_command("-m", "lowgraph", "atlas", *flags, timeout=240)


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
    assert found["nodes"] >= found["launches"], "a library may add a fill"
    assert found["why_no_graph"] == ""
    assert [one["off"] for one in found["arms"]] == [["optimizer"], ["ring"]]
    optimizer, ring = (one["nodes"] for one in found["arms"])
    assert ring == {"bookkeeping/ring": stages["bookkeeping/ring"]["nodes"]}
    # The stage has the gradients' norm too, which is not left out.
    assert optimizer.keys() == {"optimizer"}
    assert 0 < optimizer["optimizer"] < stages["optimizer"]["nodes"]
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
    subject = Subject(
        parts.body, device, parts.pool, parts.library, parts.stream, around=parts.advance
    )
    found = measure(subject, 3)
    parts.advance()
    parts.advance()
    report = parts.graph_step.report()
    with device.count_calls() as below:
        subject.eager()
    assert found.nodes.total() == report.nodes
    assert found.launches.total() == report.launches_eager_step == report.kernels
    own: dict[str, int] = {}
    for (stage, _), count in found.launches.items():
        own[stage] = own.get(stage, 0) + count
    assert own == report.stages
    if below.counted_by:
        launches = sum(n for name, n in below.calls.items() if name.startswith("cuLaunchKernel"))
        assert launches == found.launches.total()
    parts.close()


def test_the_value_of_a_flag_that_is_none_is_told_as_such(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["atlas", "--clip", "1"]) == 2
    said = capsys.readouterr().err
    assert said == "error: '1' is no value of a flag of lowgraph atlas, nor summary (see --help)\n"
    assert main(["atlas", "--clip=1"]) == 2
    assert "unrecognized arguments: --clip=1" in capsys.readouterr().err


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


def test_a_picture_has_time_and_nodes_of_each_log(tmp_path: Path) -> None:
    logs = [tmp_path / name for name in ("graph.tsv", "eager.tsv")]
    counts = [((0, 41), (0, 30), (0, 77)), ((43, 0), (31, 0), (79, 0))]
    for path, found in zip(logs, counts, strict=True):
        rows = [
            Row(1, stage, *launches_nodes, us)
            for stage, launches_nodes, us in zip(
                ("forward", "forward/inner", "loss"), found, (500.0, 300.0, 700.0), strict=True
            )
        ]
        write_rows(path, rows)
    out = tmp_path / "s.svg"
    assert main(["atlas", "summary", *map(str, logs), "--plot", str(out)]) == 0
    told = re.findall(r"<!-- (.*?) -->", out.read_text())
    for part in ("graph", "eager", "forward", "forward/inner", "loss", "200", "300", "700"):
        assert part in told, part
    # Their own, without inner ones: nodes of the graph, launches of the log that has none.
    assert {"11", "30", "77"} <= set(told) and {"12", "31", "79"} <= set(told)


def _figures(path: Path, us: float, **kernels: tuple[int, int]) -> str:
    _log(path, us)
    stages = [vars(one) for one in summarise(read_rows(path))]
    populations = [
        {"stage": "forward", "kernel": name, "launches": launches, "nodes": nodes}
        for name, (launches, nodes) in kernels.items()
    ]
    path.write_text(json.dumps({"stages": stages, "populations": populations}))
    return str(path)


def test_of_json_files_the_kernels_are_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = _figures(tmp_path / "a.json", 2.0, same=(1, 1), fewer=(4, 4), gone=(1, 0))
    two = _figures(tmp_path / "b.json", 3.0, same=(1, 1), fewer=(4, 1), new=(0, 2))
    out = tmp_path / "s.json"
    assert main(["atlas", "summary", one, two, "--json", str(out)]) == 0
    said = capsys.readouterr().out
    found = json.loads(out.read_text())
    assert [(c["kernel"], c["launches"], c["nodes"]) for c in found["changes"]] == [
        ("fewer", [4, 4], [4, 1]),
        ("new", [0, 0], [0, 2]),
        ("gone", [1, 0], [0, 0]),
    ]
    assert [one["stages"][0]["us"] for one in found["logs"]] == [2.0, 3.0]
    lines = [line.split() for line in said.splitlines()]
    assert ["forward", "fewer", "4", ">", "4", "4", ">", "1"] in lines
    assert main(["atlas", "summary", one, one]) == 0
    assert "no kernel of any stage differs" in capsys.readouterr().out
    log = _log(tmp_path / "c.tsv", 1.0)
    assert main(["atlas", "summary", one, log, "--json", str(out)]) == 0
    assert json.loads(out.read_text())["changes"] is None


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"stages": [], "populations": []}',
                                  '{"stages": [{"stage": "a"}], "populations": []}'])  # fmt: skip
def test_json_that_is_no_atlas_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    path = tmp_path / "a.json"
    path.write_text(text)
    assert main(["atlas", "summary", str(path)]) == 2
    told = f"error: {path}: not the figures of an atlas; write one with: python -m lowgraph atlas"
    assert capsys.readouterr().err.startswith(told)


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
        (("summary",), "the following arguments are required: F"),
        (("summary", "{}/none.tsv"), "{}/none.tsv: No such file"),
        (("summary", "{}/text"), "{}/text: not a log of the atlas"),
        (("summary", "{}/a.tsv", "--json", "{}/x", "--plot", "{}/x"), "must be different paths"),
        (("summary", "{}/a.tsv", "--json", "{}/a.tsv"), "--json and a log must be different paths"),
        (("summary", "{}/a.tsv", "--plot", "{}/a.tsv"), "--plot and a log must be different paths"),
        (("summary", "{}/a.tsv", "--json", "{}/none/x"), "--json {}/none/x: {}/none is no"),
        (("sum",), "'sum' is no value of a flag of lowgraph atlas, nor summary"),
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
def test_the_precision_is_that_of_the_step(spec: str, tmp_path: Path) -> None:
    """Of the mlp, whose steps take little time; in bf16 its weights are cast, in nodes more."""
    nodes = {}
    for precision in ("fp32", "bf16"):
        file = tmp_path / precision
        done = _atlas("--device", spec, "--model", "mlp", "--preset", "nano", "--batch", "1",
                      "--steps", "3", "--arms", "none", "--precision", precision,
                      "--json", str(file))  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        found = json.loads(file.read_text())
        assert found["precision"] == precision
        nodes[precision] = found["nodes"]
    assert nodes["bf16"] > nodes["fp32"] > 0


@pytest.mark.parametrize("text", ["[" * 100_000, "[]", '{"stages": [3], "populations": []}',
                                  '{"stages": [{}], "populations": [[]]}'])  # fmt: skip
def test_a_file_that_is_no_atlas_is_refused_in_one_line(
    tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.json").write_text(text)
    assert main(["atlas", "summary", str(tmp_path / "a.json")]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "not the figures of an atlas; write one with" in said


@pytest.mark.both
def test_an_arm_that_the_step_has_not_is_refused(spec: str) -> None:
    done = _atlas("--device", spec, "--preset", "nano", "--batch", "1", "--steps", "3",
                  "--arms", "ema")  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.endswith("error: --arms ema: no such arm; the step has optimizer, ring\n")
