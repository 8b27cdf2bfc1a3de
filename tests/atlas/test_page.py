"""docs/atlas.md shows what the committed atlases of two models hold."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from lowgraph.cli import main
from tests.support.process import ROOT

PAGE = (ROOT / "docs" / "atlas.md").read_text(encoding="utf-8")
FOLDER = "benchmarks/results/h200"
BLOCK = re.compile(r"^```text\n\$ python -m lowgraph (atlas summary \S+)\n(.*?)^```$", re.M | re.S)
MODELS = ("charlm", "mamba2")


@pytest.mark.parametrize("model", MODELS)
def test_the_page_has_the_figures_of_the_file(
    model: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    blocks = dict(BLOCK.findall(PAGE))
    command = f"atlas summary {FOLDER}/atlas_{model}.json"
    assert main(command.split()) == 0
    printed = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert printed == blocks[command].splitlines()


@pytest.mark.parametrize("model", MODELS)
def test_the_page_says_where_the_figures_are_from(model: str) -> None:
    found: dict[str, Any] = json.loads((ROOT / FOLDER / f"atlas_{model}.json").read_text())
    assert found["device_title"] == found["gpu"] == "NVIDIA H200"
    assert f"commit {found['commit'][:7]}" in PAGE and f"{model} {found['preset']}" in PAGE
    picture = f"pictures/atlas_{model}.png"
    assert f"]({picture})" in PAGE
    assert (ROOT / "docs" / picture).read_bytes().startswith(b"\x89PNG")
