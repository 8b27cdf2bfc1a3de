"""The page's data and its text, and the commands that write it: no browser."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lowgraph import cli, debug
from lowgraph.debug.form import Form
from lowgraph.debug.page import data, document
from lowgraph.debug.page.data import graph_data
from lowgraph.debug.page.diff_data import diff_data
from lowgraph.errors import ConfigError
from lowgraph.train.atlas.rows import Row, write_rows
from tests.packaging.tree import PACKAGE
from tests.page.graphs import HOSTILE, LONG, changed, form, hostile, kernel, large

# What would make markup or code of a text, or end the page's own script.
MARKUP = re.compile(
    r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\b|Function\(|</script|<!--"
)


def embedded(page: str) -> Any:
    (found,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    return json.loads(found)


def test_the_data_hold_the_whole_form() -> None:
    given = large(100)
    told = graph_data(given)
    assert [node["name"] for node in told["nodes"]] == [node.name for node in given.nodes]
    assert sum(len(node["waits"]) for node in told["nodes"]) == told["edges"] == len(given.edges)
    third = told["nodes"][3]
    assert third["arguments"] == [
        ["y", "float*", "0x0000000000001000", 0, 0, "writes"],
        ["x", "const float*", "0x0000000000001000", 0, 0, "reads"],
        ["n", "int", "3", None, None, ""],
    ]
    assert ["grid", "4 × 1 × 1"] in third["attributes"]
    assert {name for name, _ in third["attributes"]} == {"source", "source_hash", "grid", "block"}
    assert third["where"] == "/home/me/step.py:4" and third["us"] is None
    stages = [(stage["name"], stage["nodes"]) for stage in told["stages"]]
    assert stages == [("forward", 50), ("forward/layer 0", 50), ("backward", 50),
                      ("backward/layer 1", 50)]  # fmt: skip
    assert [stage["hue"] for stage in told["stages"]] == [0, 0, 1, 1]


def test_stage_times_are_shared_and_summed() -> None:
    told = graph_data(large(100), {"forward/layer 0": 100.0, "backward/layer 1": 50.0})
    assert [stage["us"] for stage in told["stages"]] == pytest.approx([100.0, 100.0, 50.0, 50.0])
    assert told["nodes"][0]["us"] == 2.0 and "by time" in told["critical"]["text"]


def test_a_long_value_is_cut_and_its_size_told() -> None:
    raw = debug.Argument("argument 0", "60000 bytes", "", None, None, b"\x01" * 60_000)
    told = graph_data(form([kernel(0, (), arguments=(raw,))]))
    value = told["nodes"][0]["arguments"][0][2]
    assert len(value) < 300 and value.endswith("... (60000 bytes)")


@pytest.mark.parametrize(
    ("what", "most"), [("nodes", 99), ("edges", 100), ("memory", 19), ("bodies", 0), ("stages", 1)]
)
def test_a_graph_that_is_too_large_for_a_page_is_refused(
    what: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(data.LIMITS, what, most)
    told = rf"a page holds at most {most} {what}, and this graph has \d+; write it with --json"
    with pytest.raises(ConfigError, match=told):
        debug.html(large(100))


def test_a_page_that_would_be_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document, "MAX_BYTES", 1000)
    with pytest.raises(ConfigError, match=r"the page would have \d+ bytes, and may have 1000: nam"):
        debug.html(large(100))


def test_stages_in_stages_without_end_are_cut() -> None:
    deep = "/".join("abcdefghijkl")
    told = graph_data(form([kernel(0, (), stage=deep)]))["stages"]
    assert [stage["name"] for stage in told][:2] == ["a", "a/b"] and told[-1]["name"] == deep
    assert len(told) == 8


def test_a_comparison_lists_each_node_once_with_its_twin() -> None:
    old = large(100)
    new = changed(old)
    told = diff_data(old, new, debug.diff(old, new))
    assert (told["verdict"], told["class"]) == ("must re-instantiate", "bad")
    status = {row[1]: row[2] for row in told["rows"]}
    assert {index: one for index, one in status.items() if one != "same"} == {
        3: "changed", 5: "changed", 7: "changed", 100: "added"
    }  # fmt: skip
    assert [row[0] for row in told["rows"]] == [*range(100), None]
    assert told["rows"][3][4] == [["scalar", "n", "3", "77"]]
    back = diff_data(new, old, debug.diff(new, old))
    assert [row[:3] for row in back["rows"][99:]] == [[99, 99, "same"], [100, None, "removed"]]


def test_a_node_that_is_gone_stands_where_it_was() -> None:
    old = form([kernel(n, (n - 1,) if n else (), f"k{n}") for n in range(4)])
    new = form([kernel(0, (), "k0"), kernel(1, (0,), "k2"), kernel(2, (1,), "k3")])
    rows = diff_data(old, new, debug.diff(old, new))["rows"]
    assert [(row[0], row[1]) for row in rows] == [(0, 0), (1, None), (2, 1), (3, 2)]
    assert [row[2] for row in rows] == ["same", "removed", "rewired", "changed"]


def test_what_was_not_compared_is_said_to_be_so() -> None:
    child = debug.Body("child", 0)
    parent = debug.Node(0, 0, "graph", "graph")
    inner = replace(kernel(1, ()), body=1)
    old = form([parent, inner], (), (debug.Body("all"), child))
    new = form([parent, inner, kernel(2, (0,))], (), (debug.Body("all"), child))
    rows = diff_data(old, new, debug.diff(old, new))["rows"]
    assert {row[1]: row[2] for row in rows}[1] == "uncompared"


def test_the_page_is_ascii_and_names_no_address() -> None:
    page = debug.html(large(100))
    assert page.isascii()
    bare = page.replace("http://www.w3.org/2000/svg", "")  # a name, which nothing is loaded from
    assert not re.search(r"https?:|\bsrc=|\bhref=|@import|url\(", bare)


def test_the_policy_allows_this_script_and_this_style_alone() -> None:
    page = debug.html(hostile())
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', page)
    allowed = dict(part.split(" ", 1) for part in policy.split("; "))
    assert allowed["default-src"] == allowed["base-uri"] == allowed["form-action"] == "'none'"
    for name, tag in (("script-src", "script"), ("style-src", "style")):
        (text,) = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.S)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert allowed[name] == f"'sha256-{digest}'"
    assert page.count("<script") == 2 and page.count("</script") == 2


def test_hostile_names_stay_inside_of_their_strings() -> None:
    page = debug.html(hostile())
    told = embedded(page)["graphs"][0]
    assert told["label"] == HOSTILE and told["nodes"][0]["name"] == HOSTILE
    assert told["nodes"][2]["name"] == LONG
    assert told["nodes"][1]["name"].startswith(r"abc\u202edcba\u2066\u200b"), "shown, not obeyed"
    assert "<img" not in page and "<!--" not in page.partition("<title>")[2]
    assert f"<title>{html.escape(HOSTILE)[:20]}" in page
    deep = replace(form([kernel(0, (), "{{SCRIPT}}{{DATA}}")]), label="{{SCRIPT}}\ud800")
    assert embedded(debug.html(deep))["graphs"][0]["nodes"][0]["name"] == "{{SCRIPT}}{{DATA}}"


def test_an_empty_graph_has_a_page() -> None:
    told = embedded(debug.html(form([])))["graphs"][0]
    assert told["nodes"] == told["memory"] == told["in_use"] == []


def test_scripts_hold_nothing_that_makes_text_markup() -> None:
    for path in sorted((PACKAGE / "debug" / "page").glob("*.js")):
        text = path.read_text(encoding="ascii")
        assert not MARKUP.findall(text), path.name


@pytest.mark.parametrize("suffix", ["*.js", "*.css", "*.html"])
def test_the_pages_files_are_short_and_narrow(suffix: str) -> None:
    paths = list((PACKAGE / "debug" / "page").glob(suffix))
    assert paths
    for path in paths:
        lines = path.read_text(encoding="utf-8").splitlines()
        assert len(lines) <= 250 and max(map(len, lines)) <= 100, path.name


def written(tmp_path: Path, name: str, given: Form) -> str:
    path = tmp_path / name
    path.write_text(json.dumps(debug.as_dict(given)))
    return str(path)


def test_the_commands_write_pages(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = large(100)
    old, new = written(tmp_path, "a", given), written(tmp_path, "b", changed(given))
    page, log = tmp_path / "p.html", tmp_path / "log.tsv"
    assert cli.main(["show", old, "--html", str(page)]) == 0
    assert capsys.readouterr().out.endswith(f"wrote {page}\n")
    assert page.read_text() == debug.html(given)
    rows = [("forward/layer 0", 80.0), ("forward/layer 0/x", 30.0), ("backward/layer 1", 10.0)]
    write_rows(log, [Row(1, stage, 50, 50, us) for stage, us in rows])
    assert cli.main(["show", old, "--html", str(page), "--times", str(log)]) == 0
    own = {"forward/layer 0": 50.0, "forward/layer 0/x": 30.0, "backward/layer 1": 10.0}
    assert page.read_text() == debug.html(given, own)
    assert cli.main(["diff", old, new, "--html", str(page)]) == 0
    assert page.read_text() == debug.diff_html(given, changed(given))


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--times", "log.tsv"], "--times log.tsv is shown in a page; name its file with --html"),
        (["--html", "p.html", "--times", "none.tsv"], "none.tsv: No such file or directory"),
        (["--html", "no/p.html"], "/no is not there"),
        (["--html", "p.html", "--times", "other.tsv"], "none of the 1 stage that were timed"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    flags: list[str], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    write_rows(Path("other.tsv"), [Row(1, "elsewhere", 1, 1, 1.0)])
    assert cli.main(["show", written(tmp_path, "a", large(100)), *flags]) == 2
    error = capsys.readouterr().err
    assert told in error and error.count("\n") == 1
    assert not (tmp_path / "p.html").exists()


def test_a_folder_that_is_not_there_is_told_before_the_graph(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for flag in ("--json", "--dot", "--html"):
        assert cli.main(["show", "--preset", "nano", flag, str(tmp_path / "no" / "f")]) == 2
        said = capsys.readouterr()
        assert said.out == "" and said.err.startswith(f"error: {flag} "), said
