"""A graph's file comes back as it was, and a broken or hostile one is one clear error."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lowgraph import cli, debug
from lowgraph.debug import files
from lowgraph.debug.form import Argument, Attribute, Body, Form, Memory, Node
from lowgraph.errors import ConfigError

HOSTILE = 'x"]; evil [label="\\n\x1b[31m\u202e\ud800</td>\r\n\x00'


def sample() -> Form:
    """A graph of two kernels, a copy and a conditional with a body."""
    kernel: dict[str, Attribute] = {
        "source": "a.cu", "source_hash": "ab", "grid": (3, 1, 1), "block": (128, 1, 1),
        "shared": 0, "cluster": (0, 0, 0), "cooperative": False,
    }  # fmt: skip
    memory = Memory("x", 0x1000, 256, 1, 1), Memory("y", 0x2000, 256, 2, 1, "graph", "step")
    x = Argument("x", "float*", "Q", True, False, (0x1010).to_bytes(8, "little"), 0, 16)
    y = Argument("y", "const float*", "Q", True, True, (0x2000).to_bytes(8, "little"), 1, 0)
    rate = Argument("rate", "float", "f", False, None, b"\x00\x00\xc0\x7f")  # NaN
    copied: dict[str, Attribute] = {
        "direction": "device to device",
        "width": 4,
        "height": 1,
        "depth": 1,
        "to_pitch": 0,
        "source_pitch": 0,
    }
    nodes = (
        Node(0, 0, "kernel", "scale", "a.py:1", "forward", True, (), kernel, (x, y, rate)),
        Node(1, 0, "memcpy", "memcpy", waits=(0,), attributes=copied, arguments=(x,), stream=1),
        Node(2, 0, "conditional", "conditional", waits=(1, 0)),
        Node(3, 1, "kernel", "scale", attributes=kernel, enabled=False),
    )
    return Form("step", "host", "lowgraph", memory, nodes, (Body("step"), Body("body", 2)), ("n",))


def written(tmp_path: Path, given: Any) -> Path:
    path = tmp_path / "g.json"
    path.write_text(given if isinstance(given, str) else json.dumps(given))
    return path


def test_a_form_comes_back_from_its_file(tmp_path: Path) -> None:
    form = sample()
    assert debug.load(written(tmp_path, debug.as_dict(form))) == form
    assert form.nodes[0].arguments[2].text() == "nan", "what JSON has no number for"


def test_a_graph_of_nothing_and_a_node_of_nothing_are_told_without_empty_brackets() -> None:
    bare = Form("g", "host", "handle", (), (), (Body("g"),))
    assert list(debug.lines(bare)) == ["graph 'g' on host: 0 nodes, 0 edges"]
    assert debug.report_of(bare).findings == () and debug.diff(bare, bare).nodes == ()
    assert debug.from_dict(debug.as_dict(bare)) == bare and debug.html(bare).isascii()
    (line,) = (line for line in debug.lines(sample()) if "node 2 " in line)
    assert line == "  node 2 (conditional): waits for 1, 0"


def test_a_kernel_made_of_templates_has_a_name_of_thousands(tmp_path: Path) -> None:
    """And a note of it is longer by its title: what `show` writes, `show` reads."""
    form = sample()
    name = "_ZN7cutlass" + "13device_kernelINS_" * 400
    node = replace(form.nodes[0], name=name)
    notes = (f"{node.title}: grid is (3, 1, 1) in the driver's node",)
    form = replace(form, nodes=(node, *form.nodes[1:]), notes=notes)
    assert debug.load(written(tmp_path, debug.as_dict(form))) == form


Change = Callable[[dict[str, Any]], object]


def _arg(given: dict[str, Any], at: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = given["nodes"][0]["arguments"][at]
    return found


BAD: dict[str, tuple[Change, str]] = {
    "format": (lambda g: g.update(format="other"), "format: it must be one of 'lowgraph graph'"),
    "version": (lambda g: g.update(version=9), "version: this lowgraph reads 1"),
    "missing": (lambda g: g.pop("edges"), "the file has no 'edges'"),
    "strange": (lambda g: g.update({"\x1b[1m": 1}), r"not known, '\\x1b\[1m'"),
    "null": (lambda g: g.update(nodes=None), "nodes: it must be a list"),
    "an entry": (lambda g: g["nodes"].append(3), "nodes: entry 4 is no object"),
    "long": (lambda g: g.update(label="x" * 65537), "label: .* at most 65536 characters"),
    "negative": (lambda g: g["memory"][0].update(address=-1), "address: .* whole number from 0"),
    "wide": (lambda g: g["memory"][0].update(nbytes=1 << 64), r"nbytes: .* to 2\*\*64 - 1"),
    "flag": (lambda g: g["nodes"][0].update(enabled=1), "enabled: it must be true or false"),
    "true as 1": (lambda g: g["nodes"][1].update(index=True), "index: .* whole number"),
    "stream": (lambda g: g["nodes"][1].update(stream=None), "stream: it must be a whole number"),
    "role": (lambda g: g["memory"][0].update(role="king"), "role: it must be one of"),
    "hex": (lambda g: _arg(g).update(data="zz"), "data: .* in hexadecimal"),
    "code": (lambda g: _arg(g).update(code="P"), "code: it must be one of"),
    "size": (lambda g: _arg(g, 2).update(data="00"), "1 bytes are no value of type 'f'"),
    "pointer": (lambda g: _arg(g, 2).update(pointer=True), "a pointer has the code 'Q'"),
    "memory": (lambda g: _arg(g).update(memory=7), "there is no memory 7"),
    "half": (lambda g: _arg(g).update(memory=None), "memory and offset belong together"),
    "offset": (lambda g: _arg(g).update(offset=8), "does not lie at that offset"),
    "twice": (lambda g: _arg(g, 1).update(name="x"), "two arguments have one name"),
    "index": (lambda g: g["nodes"][1].update(index=0), r"nodes\[1\]: its index is 0"),
    "attribute": (
        lambda g: g["nodes"][0]["attributes"].pop("grid"),
        r"nodes\[0\].attributes has no 'grid'",
    ),
    "three": (lambda g: g["nodes"][0]["attributes"].update(grid=[1]), "grid: .* three numbers"),
    "edge": (lambda g: g["edges"].append([0, 9]), "edges: 0 to 9, and there are 4 nodes"),
    "no pair": (lambda g: g["edges"].append([0]), r"edges: it must be a list of \[from, to\]"),
    "double": (lambda g: g["edges"].append([0, 1]), "an edge into node 1 stands twice"),
    "circle": (lambda g: g["edges"].append([2, 0]), "waits for itself, in a circle"),
    "across": (lambda g: g["edges"].append([0, 3]), "goes from one body into another"),
    "no body": (lambda g: g["nodes"][3].update(body=2), "there is no body 2"),
    "parent": (lambda g: g["bodies"][1].update(parent=3), "a node of a body before it"),
    "no bodies": (lambda g: g.update(bodies=[]), "the first is the whole graph"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_broken_file_is_one_clear_error(name: str, tmp_path: Path) -> None:
    change, told = BAD[name]
    given = copy.deepcopy(debug.as_dict(sample()))
    given["nodes"] = json.loads(json.dumps(given["nodes"]))
    change(given)
    with pytest.raises(ConfigError, match=told) as caught:
        debug.load(written(tmp_path, given))
    assert "g.json is no graph of lowgraph's: " in str(caught.value)
    assert "\n" not in str(caught.value) and str(caught.value).isprintable()


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("", "it is no JSON"),
        ("{", "it is no JSON"),
        ("[" * 100_000, "nested too deeply"),
        ("[1]", "the file is no object"),
        ("NaN", "NaN is no JSON number"),
        ("1e9999", "with a fraction"),
        ('{"a": 1, "a": 2}', "a name stands twice"),
        ("9" * 10_000, "it is no JSON"),
        ('"\udcff"', "it is no JSON"),
    ],
    ids=["empty", "cut off", "deep", "list", "nan", "float", "twice", "digits", "no utf-8"],
)
def test_what_is_no_form_at_all(content: str, told: str, tmp_path: Path) -> None:
    path = tmp_path / "g.json"
    path.write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(ConfigError, match=told):
        debug.load(path)


def test_graphs_in_graphs_without_end_are_refused(tmp_path: Path) -> None:
    def nested(depth: int) -> Form:
        nodes = tuple(Node(n, n, "graph", "graph") for n in range(depth + 1))
        bodies = (Body("all"), *(Body("child", n) for n in range(depth)))
        return Form("deep", "host", "handle", (), nodes, bodies)

    form = nested(50)
    assert debug.load(written(tmp_path, debug.as_dict(form))) == form
    assert debug.diff(form, form).verdict is debug.Verdict.UPDATABLE
    with pytest.raises(ConfigError, match="more than 50 graphs inside of each other"):
        debug.load(written(tmp_path, debug.as_dict(nested(51))))


def test_a_file_that_is_too_large_or_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        debug.load(tmp_path / "none.json")
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        debug.load(tmp_path)
    monkeypatch.setattr(files, "MAX_BYTES", 100)
    with pytest.raises(ConfigError, match="a graph's file at most 100"):
        debug.load(written(tmp_path, debug.as_dict(sample())))


def _hostile() -> Form:
    given = debug.as_dict(sample())

    def poisoned(value: Any) -> Any:
        if isinstance(value, dict):
            names = ("label", "name", "where", "stage", "owner", "source", "type", "direction")
            return {k: HOSTILE if k in names and isinstance(v, str) else poisoned(v)
                    for k, v in value.items()}  # fmt: skip
        return [poisoned(one) for one in value] if isinstance(value, list) else value

    for node in given["nodes"]:
        node["arguments"] = node["arguments"][:1]
    return debug.from_dict({**poisoned(given), "device": HOSTILE, "notes": [HOSTILE]})


def test_names_of_a_hostile_file_reach_neither_terminal_nor_picture() -> None:
    form = _hostile()
    shown = list(debug.lines(form))
    assert all(line.isprintable() for line in shown)
    assert any("\\x1b[31m" in line for line in shown)
    picture = debug.dot(form)
    assert all(line.isprintable() for line in picture.splitlines())
    bare = re.sub(r'"(?:\\.|[^"\\])*"', "", picture)
    assert "evil" not in bare and '"' not in bare, "every name is inside of its quotes"


def test_the_command_shows_writes_and_refuses(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, again, picture = (
        written(tmp_path, debug.as_dict(sample())),
        tmp_path / "h",
        tmp_path / "d",
    )
    assert cli.main(["show", str(path), "--json", str(again), "--dot", str(picture)]) == 0
    told = capsys.readouterr().out
    assert "graph 'step' on host: 4 nodes (2 kernel, 1 memcpy, 1 conditional), 3 edges" in told
    assert "node 0 (kernel scale, stage 'forward', a.py:1): source a.cu, grid 3x1x1" in told
    assert "(x=x + 16, y=reads y, rate=nan); waits for nothing" in told
    assert debug.load(again) == sample()
    assert picture.read_text() == debug.dot(sample())
    assert cli.main(["show", str(path), "--model", "charlm"]) == 2
    assert "--model is of a step to record, and " in capsys.readouterr().err
    path.write_text("{")
    assert cli.main(["show", str(path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_the_picture_has_every_node_and_edge() -> None:
    picture = debug.dot(sample())
    assert re.findall(r"n(\d+) -> n(\d+);", picture) == [("0", "1"), ("1", "2"), ("0", "2")]
    assert "n2 -> n3 [style=dashed];" in picture and "subgraph cluster_1" in picture
    assert len(re.findall(r"n\d+ \[shape=", picture)) == 4
