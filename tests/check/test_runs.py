"""The recorded runs of the seeded bugs, and what of them is made anew."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.check import judging
from tests.check.bugs import digest as digests
from tests.check.bugs.table import BUGS, BY_NAME
from tests.check.test_tools import MEMCHECK
from tools.run_file import Table

ROOT = Path(__file__).resolve().parents[2]
NAMES = ("fill_no_guard", "block_sum_unsigned_countdown")
FACTS = {"gpu": "none", "driver": "none", "version": "Version 1"}


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No nvidia-smi on PATH: on a machine with a GPU the stand-in's file would be of that."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    (tmp_path / "nvidia-smi").chmod(0o755)


def sanitize(folder: Path, *flags: str, report: str = MEMCHECK) -> subprocess.CompletedProcess[str]:
    """tools/sanitizer_table.py over NAMES with a stand-in that gives `report`, and hangs on one."""
    (folder / "report").write_text(report, encoding="utf-8")
    stand_in = folder / "sanitizer"
    stand_in.write_text(
        f'#!/bin/sh\n[ "$1" = --version ] && echo Version 1 && exit 0\n'
        f"echo run >> {folder}/log\n"
        f'case "$*" in *block_sum*) sleep 60;; *) cat {folder}/report; exit 99;; esac\n',
        encoding="utf-8",
    )
    stand_in.chmod(0o755)
    command = [sys.executable, str(ROOT / "tools/sanitizer_table.py"), str(folder / "table.json")]
    command += ["--names", ",".join(NAMES), "--tools", "memcheck", "--timeout", "1", *flags]
    command += ["--sanitizer", str(stand_in)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def read(file: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return content


def runs_made(folder: Path) -> int:
    return (folder / "log").read_text(encoding="utf-8").count("run")


# ---- runs ----


def test_a_bug_is_run_once_and_killed_in_time(tmp_path: Path, no_gpu: None) -> None:
    for _ in range(2):
        assert sanitize(tmp_path).returncode == 0
    content = read(tmp_path / "table.json")
    runs = {name: content["bugs"][name]["memcheck"] for name in NAMES}
    assert {key: content[key] for key in FACTS} == FACTS
    assert runs["fill_no_guard"]["place_is_right"]
    assert runs["block_sum_unsigned_countdown"]["exit"] is None
    assert runs_made(tmp_path) == 2, "a run of the file was repeated"


def test_a_run_of_other_sources_is_made_again_and_the_others_stay(
    tmp_path: Path, no_gpu: None
) -> None:
    held = {name: {"memcheck": {"source": digests.digest(BY_NAME[name]), "commit": "old",
            "found": True}} for name in NAMES}  # fmt: skip
    held["fill_no_guard"]["memcheck"]["source"] = "another"
    before = tmp_path / "before.json"
    before.write_text(json.dumps({**FACTS, "bugs": held, "clean": {}}), encoding="utf-8")

    assert sanitize(tmp_path, "--begin-with", str(before)).returncode == 0

    runs = read(tmp_path / "table.json")["bugs"]
    assert runs_made(tmp_path) == 1
    assert runs["block_sum_unsigned_countdown"] == held["block_sum_unsigned_countdown"]
    assert runs["fill_no_guard"]["memcheck"]["source"] == digests.digest(BY_NAME["fill_no_guard"])
    assert runs["fill_no_guard"]["memcheck"]["commit"] != "old"


def test_runs_of_another_machine_are_not_taken(tmp_path: Path, capsys: Any) -> None:
    here, there = tmp_path / "here.json", tmp_path / "there.json"
    there.write_text(json.dumps({**FACTS, "gpu": "other", "bugs": {"x": {}}, "clean": {}}))
    assert Table(here, there, FACTS).content["bugs"] == {}
    assert "no run is taken from" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="name another file"):
        Table(there, None, FACTS)
    assert read(there)["bugs"] == {"x": {}}, "the file that was refused is as it was"


def test_nothing_is_entered_where_memcheck_sees_nothing(tmp_path: Path, no_gpu: None) -> None:
    done = sanitize(tmp_path, report="========= Error: Device not supported\n")
    assert done.returncode == 1
    assert "memcheck does not see fill_no_guard here" in done.stderr
    assert "Device not supported" in done.stderr
    assert read(tmp_path / "table.json")["bugs"] == {}
    assert runs_made(tmp_path) == 1, "the other bugs are not run"


def test_a_digest_is_of_code_and_not_of_comments(monkeypatch: pytest.MonkeyPatch) -> None:
    bug = BY_NAME["fill_no_guard"]
    changed, before = bug.changed(), digests.digest(bug)

    def told(source: str) -> bool:
        monkeypatch.setattr(type(bug), "changed", lambda self: source)
        return digests.digest(bug) != before

    assert not told(f"// another word\n{changed}\n/* and\nanother */")
    assert told(changed.replace(") * 4;", ") * 8;"))
    assert told(changed.replace("quad.cuh", "act.cuh", 1))
    assert digests.digest(BY_NAME["streams_no_event"]) != digests.digest(
        BY_NAME["streams_early_event"]
    ), "two faults of one scenario"


@pytest.mark.parametrize(
    ("file", "counts"),
    [
        ("src/check_places.cpp", True),
        ("src/race_sync.h", True),
        ("include/cuda_on_host/check_hooks.h", True),
        ("include/cuda_on_host/atomics.h", True),
        ("assembly.py", True),
        ("src/queue.cpp", False),
    ],
)
def test_a_checkers_digest_is_of_its_own_code(tmp_path: Path, file: str, counts: bool) -> None:
    home = tmp_path / "hostdev"
    shutil.copytree(digests.HOSTDEV, home, ignore=shutil.ignore_patterns("__pycache__"))
    before = digests.digest_of_checker()
    assert digests.digest_of_checker(home) == before, "the place counts"
    changed = home / file
    text = changed.read_text(encoding="utf-8")
    if changed.suffix != ".py":
        changed.write_text(f"// a word\n\n{text}", encoding="utf-8")
        assert digests.digest_of_checker(home) == before, "a comment counts"
    changed.write_text(f"{text}\nint more = 1\n", encoding="utf-8")
    assert (digests.digest_of_checker(home) != before) == counts


def test_a_bugs_digest_is_not_of_the_checker(monkeypatch: pytest.MonkeyPatch) -> None:
    """What compute-sanitizer said stays of today when the checker changes."""
    before = digests.digest(BY_NAME["fill_no_guard"])
    monkeypatch.setattr(digests, "digest_of_checker", lambda: "another")
    monkeypatch.setattr(digests, "CHECKER", ())
    assert digests.digest(BY_NAME["fill_no_guard"]) == before


def test_verdicts_of_another_checker_are_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And only they: one of today's stays as it is."""
    asked: list[str] = []

    def judge_each(names: Sequence[str]) -> Iterator[judging.Verdict]:
        asked.extend(names)
        return (judging.Verdict(name, True, "again", "", "right") for name in names)

    monkeypatch.setattr(judging, "judge_each", judge_each)
    file = tmp_path / "verdicts.json"
    monkeypatch.setattr("sys.argv", ["judging.py", str(file)])
    judging.main()
    assert asked == [bug.name for bug in BUGS]
    held = read(file)
    held["fill_no_guard"] |= {"checker": "another", "line": "before"}
    held["smooth_after_last"] |= {"source": "another"}
    file.write_text(json.dumps(held), encoding="utf-8")
    asked.clear()
    judging.main()
    assert sorted(asked) == ["fill_no_guard", "smooth_after_last"]
    assert read(file)["fill_no_guard"]["line"] == "again"
    assert {verdict["checker"] for verdict in read(file).values()} == {digests.digest_of_checker()}


def test_a_digest_is_of_every_header_that_a_source_includes() -> None:
    for source in {bug.source for bug in BUGS}:
        lines = source.read_text(encoding="utf-8").splitlines()
        named = [line.split('"')[1] for line in lines if line.startswith('#include "')]
        held = " ".join(digests._code("\n".join(lines)))
        for header in named:
            text = (digests.KERNELS / header).read_text(encoding="utf-8")
            assert " ".join(digests._words(text)) in held, (source.name, header)


def test_a_digest_does_not_go_by_the_order_of_imports(monkeypatch: pytest.MonkeyPatch) -> None:
    before = digests.digest_of_clean()
    monkeypatch.setattr(digests, "SCENARIOS", dict(reversed(digests.SCENARIOS.items())))
    assert digests.digest_of_clean() == before


def test_verdicts_stay_and_those_of_other_sources_are_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[str]] = []

    def judge_each(names: list[str]) -> list[judging.Verdict]:
        asked.append(list(names))
        return [judging.Verdict(name, True, "", "", "") for name in names]

    monkeypatch.setattr(judging, "judge_each", judge_each)
    file = tmp_path / "check.json"
    monkeypatch.setattr(sys, "argv", ["judging.py", str(file)])
    judging.main()
    content = read(file)
    content["fill_no_guard"].update(source="another", found=False)
    file.write_text(json.dumps(content), encoding="utf-8")
    judging.main()
    monkeypatch.setattr(sys, "argv", ["judging.py", str(file), "smooth_after_last"])
    judging.main()

    assert asked == [[bug.name for bug in BUGS], ["fill_no_guard"], ["smooth_after_last"]]
    assert list(read(file)) == [bug.name for bug in BUGS]
    assert read(file)["fill_no_guard"]["found"]
