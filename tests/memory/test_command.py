"""`python -m lowgraph memory`: the report and the map of a model's step, and what it refuses."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from lowgraph import cli
from lowgraph.driver import Device
from lowgraph.memory import PoolMap, pool_map
from lowgraph.train import memory_picture
from lowgraph.train.datasets import read_data
from lowgraph.train.parts import Parts
from tests.memory.test_pool_map import assert_whole
from tests.support.process import ROOT
from tests.train.runs import MICRO, micro_file, micro_plan


@pytest.mark.parametrize("model", list(MICRO))
def test_the_map_of_a_models_step_adds_up(device: Device, model: str, tmp_path: Path) -> None:
    data = read_data(model, micro_file(model, tmp_path))
    parts = Parts(device, micro_plan(model), data, graph=True, ring_slots=4)
    try:
        for _ in range(3):
            parts.advance()
        found = assert_whole(parts.pool)
        retained = parts.graph_step.report().retained_bytes
        assert found.of("graph") == retained > 0
        kept = [block for block in found.blocks if block.state == "graph"]
        assert all(block.owners == ("train step",) and block.slices for block in kept)
        stages = {one.stage.split("/")[0] for block in kept for one in block.slices}
        assert "forward" in stages and stages <= {"batch", "forward", "loss", "backward",
                                                  "optimizer", "bookkeeping"}  # fmt: skip
        assert [len(block.slices) > 1 for block in kept].count(True) > 0, "memory is used again"
    finally:
        parts.close()


@pytest.mark.both
def test_the_command_writes_report_map_and_picture(
    device: Device, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, picture = tmp_path / "m.json", tmp_path / "m.png"
    flags = ["--device", device.spec, "--model", "charlm", "--preset", "nano", "--batch", "2"]
    data = ["--data", str(micro_file("charlm", tmp_path))]
    files = ["--json", str(out), "--plot", str(picture)]
    assert cli.main(["memory", *flags, *data, "--map", *files]) == 0
    said = capsys.readouterr().out
    for part in ("model: charlm nano", "executable 'train step'", "workspace 'blas workspace of ",
                 "slice 'parameters'", "allocation  +offset", "fragmentation ",
                 "float32 [128, 64] in forward/embedding; held by train step"):  # fmt: skip
        assert part in said, part
    found: dict[str, Any] = json.loads(out.read_text())
    blocks = found["map"]["blocks"]
    assert sum(block["nbytes"] for block in blocks) == found["pool"]["reserved"]
    assert found["by_kind"]["workspace"] == found["map"]["states"]["workspace"] > 0
    taken = found["pool"]["reserved"] + found["by_kind"]["executable"] + found["driver"]
    assert found["free"] + taken == found["total"]
    assert (found["device"], found["model"], found["preset"]) == (device.spec, "charlm", "nano")
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.host  # the page's blocks are of the host device
def test_the_page_shows_what_is_printed(
    device: Device, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Figures and units apart, which are those of a larger batch."""

    def form(text: str) -> str:
        words = re.sub(r"0x[0-9a-f]+|\d[\d.]*", "#", " ".join(text.split()))
        return re.sub(r"# (?:bytes|[KMG]iB)", "SIZE", words)

    data = str(micro_file("charlm", tmp_path))
    flags = ["--device", device.spec, "--preset", "nano", "--batch", "2", "--data", data, "--map"]
    assert cli.main(["memory", *flags]) == 0
    printed = set(map(form, capsys.readouterr().out.splitlines()))
    page = (ROOT / "docs" / "memory.md").read_text(encoding="utf-8")
    shown = "".join(re.findall(r"^```text\n(.*?)^```", page, re.M | re.S)).splitlines()
    assert len(shown) == 12
    assert [line for line in shown if form(line) not in printed] == []


@pytest.mark.both
def test_without_map_the_slices_are_not_listed(
    device: Device, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = str(micro_file("charlm", tmp_path))
    flags = ["--device", device.spec, "--preset", "nano", "--batch", "1", "--data", data]
    assert cli.main(["memory", *flags]) == 0
    said = capsys.readouterr().out
    assert "map: " in said and "allocation  +offset" not in said


def test_a_picture_shows_every_byte_once(device: Device, tmp_path: Path) -> None:
    from lowgraph.memory import PersistentPool

    pool = PersistentPool(device)
    for number in range(40):
        pool.take(f"$\\s{number}$", 1000 * number + 1)  # no formula
    found = pool_map(pool)
    rows: dict[int, float] = {}
    for row, begin, width, _ in memory_picture.strips(found):
        assert begin == pytest.approx(rows.get(row, 0.0)), "strips follow each other"
        rows[row] = begin + width
    full = list(rows.values())
    assert len(rows) == memory_picture.ROWS and full[:-1] == pytest.approx([1.0] * (len(full) - 1))
    memory_picture.draw(tmp_path / "p.svg", "a pool", found)
    assert "s39$" in (tmp_path / "p.svg").read_text()
    memory_picture.draw(tmp_path / "e.png", "an empty pool", PoolMap(()))
    pool.close()


@pytest.mark.parametrize(
    ("flags", "told"),
    [(["--preset", "huge"], "error: unknown preset 'huge' of charlm"),
     (["--plot", "a.xyz"], "error: --plot a.xyz: use a name that ends in ."),
     (["--json", "no/such/a.json"], "error: --json no/such/a.json: "),
     (["--json", "a.png", "--plot", "a.png"], "error: --"),
     (["--data", "no such file"], "error: "),
     (["--batch", "0"], "error: ")],
)  # fmt: skip
def test_bad_input_is_one_line(
    flags: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["memory", *flags]) == 2
    said = capsys.readouterr()
    assert said.err.startswith(told) and said.err.count("\n") == 1, said.err
    assert said.out == "", "before any device work"


def test_without_matplotlib_a_picture_is_refused_before_the_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert cli.main(["memory", "--plot", "a.png"]) == 2
    assert "--plot needs matplotlib; install it with: " in capsys.readouterr().err
