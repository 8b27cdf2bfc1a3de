"""The reference pages name everything that the code has."""

from __future__ import annotations

import re
from dataclasses import fields

from lowgraph import errors
from lowgraph.capture import StepReport
from lowgraph.train.result import Result
from tests.packaging.tree import ROOT, files

# `os.environ["X"]`, `os.environ.get("X")`, `getenv("X")`; and a name of ours kept in a constant.
READ = re.compile(r'(?:environ(?:\.get\(|\[)|getenv\()\s*"(\w+)"')
OURS = re.compile(r'^_?[A-Z_]+ = "(LOWGRAPH_\w+)"', re.MULTILINE)
DOCUMENTED = re.compile(r"^\| `([A-Z_]+)`", re.MULTILINE)


def _page(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def test_errors_page_lists_every_public_class() -> None:
    listed = set(re.findall(r"^\| `(\w+)`", _page("errors.md"), re.MULTILINE))
    assert listed == set(errors.__all__)


def test_every_error_has_a_remedy() -> None:
    for row in re.findall(r"^\| `\w+`.*$", _page("errors.md"), re.MULTILINE):
        cells = [cell.strip() for cell in row.strip("|").split("|")]
        assert len(cells) == 3, row
        assert all(cells), row


def _variables_read() -> dict[str, str]:
    """Variables that the code reads from its environment, and one file that does."""
    found: dict[str, str] = {}
    for path in files("lowgraph", "tools", suffixes={".py", ".cpp", ".h"}):
        text = path.read_text(encoding="utf-8")
        constants = OURS.findall(text) if "environ" in text else []
        found.update(dict.fromkeys(READ.findall(text) + constants, path.name))
    return found


def test_environment_page_lists_every_variable() -> None:
    documented = set(DOCUMENTED.findall(_page("environment.md")))
    read = _variables_read()
    assert set(read) <= documented, {name: read[name] for name in set(read) - documented}


def test_environment_page_lists_nothing_unread() -> None:
    assert set(DOCUMENTED.findall(_page("environment.md"))) <= set(_variables_read())


def test_report_page_explains_every_line_of_a_report() -> None:
    stages, notes = {"forward": 1}, ["said"]
    report = StepReport("a step", "host", stages=stages, shape_warning="sizes", notes=notes)
    rows = "\n".join(re.findall(r"^\| `.*? \|", _page("report.md"), re.MULTILINE))
    for line in report.text().splitlines()[1:]:
        label = re.match(r"  ([a-z]+)", line)
        assert label and f"`{label[1]}" in rows, line


def test_report_page_lists_the_keys_of_a_runs_json() -> None:
    part = _page("report.md").partition("## What `train_small.py --json FILE` writes")[2]
    rows = re.findall(r"^\| (`.*?) \|", part, re.MULTILINE)
    listed = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    ends = {"loss_first", "loss_last", "heldout_loss"}  # properties; see Result.as_dict
    assert len(listed) == len(set(listed))
    assert set(listed) == {field.name for field in fields(Result)} | ends


def test_results_name_no_folder_of_a_machine() -> None:
    folder = re.compile(r'(?<![\w.])/(?:home|mnt|opt|root|tmp|usr|work)/[^\s"]*')
    for path in files("benchmarks/results", suffixes={".json"}):
        found = folder.search(path.read_text(encoding="utf-8"))
        assert found is None, f"{path.name}: {found and found[0]}"
