"""What the checker says of the seeded bugs: run under it, each finding held against the table.

    python tests/check/judging.py FILE [NAME...]

writes {bug: verdict}, one verdict a bug, in the form that tools/bug_table.py reads.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from tests.check.bugs.bug import Bug  # noqa: E402
from tests.check.bugs.table import BUGS, BY_NAME  # noqa: E402

SCRIPT = "tests/check/run_bug.py"
SECONDS_EACH = 60.0  # for one bug, compiling included
GIVE_UP = 30.0  # the checker must have ended an endless kernel by then

Finding = dict[str, Any]


@dataclass
class Verdict:
    """found: by a finding of a right kind at a right place, none before it of its kind wrong.

    line: of the finding, or why there is none. place: "file:line". result: of run_bug.py.
    """

    name: str
    found: bool
    line: str
    place: str
    result: str


def has_checker() -> bool:
    """Whether this lowgraph has the command at all."""
    return _run("-m", "lowgraph", "check", "--help", seconds=60).returncode == 0


def check(
    names: Sequence[str], *flags: str, give_up: float = GIVE_UP
) -> tuple[list[Finding], list[dict[str, Any]], str]:
    """Run names in one process under the checker; findings, results of run_bug.py, output."""
    with tempfile.TemporaryDirectory() as folder:
        found, out = Path(folder, "findings.json"), Path(folder, "results.json")
        script = [SCRIPT, *names, *flags, "--give-up", str(give_up), "--out", str(out)]
        command = ["-m", "lowgraph", "check", *script, "--json", str(found)]
        done = _run(*command, seconds=SECONDS_EACH * len(names))
        findings, results = _list(found, "findings"), _list(out, "results")
    return findings, results, done.stdout[-2000:]


def _list(file: Path, key: str) -> list[dict[str, Any]]:
    """A list in a JSON file, empty where the process died before it wrote one."""
    if not file.is_file():
        return []
    content: list[dict[str, Any]] = json.loads(file.read_text(encoding="utf-8"))[key]
    return content


def judge_all(names: Iterable[str]) -> dict[str, Verdict]:
    """Verdicts by name. Several share a process, until one of them loses the context."""
    verdicts: dict[str, Verdict] = {}
    waiting = list(names)
    while waiting:
        group = _group(waiting)
        findings, results, output = check(group)
        ran = {r["name"]: r["result"] for r in results if r["result"] != "not run"}
        for name in group:
            # The first one counts as run in any case, or a process that died would come again.
            if name in ran or name == group[0]:
                verdicts[name] = judge(BY_NAME[name], findings, ran.get(name, output))
        waiting = [name for name in waiting if name not in verdicts]
    return verdicts


def _group(waiting: Sequence[str]) -> list[str]:
    """The first name, with others that share its process: at most one a kernel and a scenario.

    A finding in a header tells its bug by the kernel alone, and a bug's wrong results make findings
    in the kernels that follow in its scenario.
    """
    group: list[str] = []
    taken: set[str] = set()
    for name in waiting:
        bug = BY_NAME[name]
        own = {f"kernel {bug.kernel}", f"scenario {bug.scenario}"}
        if (not bug.is_alone or not group) and not own & taken:
            group.append(name)
            taken |= own
        if bug.is_alone and name == waiting[0]:
            break
    return group


def judge(bug: Bug, findings: Sequence[Finding], result: str) -> Verdict:
    """Hold the findings of a run against one bug: the first of a right kind decides."""
    kinds = {bug.kind, *(kind for kind, _ in bug.other_kinds)}
    own = [finding for finding in findings if _is_of(bug, finding)]
    fitting = next((finding for finding in own if finding["kind"] in kinds), None)
    if fitting is None:
        seen = ", ".join(sorted({f"{f['kind']} in {f['kernel']}" for f in own}))
        return Verdict(bug.name, False, f"no finding of its kind, but {seen or 'none'}", "", result)
    place = (Path(str(fitting["file"])).name, fitting["line"])
    places = bug.places()
    text = f"{fitting['kind']}: {fitting['text']}"
    found = not places or place in places or _is_in_an_atomic(fitting)
    return Verdict(bug.name, found, text, f"{place[0]}:{place[1]}", result)


def _is_in_an_atomic(finding: Finding) -> bool:
    """An endless kernel is stopped wherever it is: one that goes round an atomic, in that."""
    return bool(
        finding["kind"] == "endless-kernel" and Path(str(finding["file"])).name == "atomics.h"
    )


def _is_of(bug: Bug, finding: Finding) -> bool:
    """Whether a finding of a run of several bugs is this one's.

    A changed copy carries the bug's name; a place in a shared header is told apart by the text,
    the other place, or, where it names neither, by the kernel.
    """
    file = f"{bug.name}.cu"
    told = " ".join(str(finding.get(key)) for key in ("file", "other", "text"))
    if bug.kind == "node-race":
        everything = " ".join(map(str, finding.values()))
        return file in told or (finding["kind"] == bug.kind and bug.kernel in everything)
    if file in told:
        return True
    named = any(f"{name}.cu" in told for name in BY_NAME)
    return not named and finding["kernel"] == bug.kernel


def _run(*arguments: str, seconds: float) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    command = [sys.executable, *arguments]
    # A launch without end is to be stopped before the scenario gives up by itself.
    limits = {"PYTHONPATH": path, "LOWGRAPH_HOST_KERNEL_SECONDS": "5"}
    try:
        return subprocess.run(
            command, cwd=ROOT, env={**os.environ, **limits}, timeout=seconds, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, -1, f"killed after {seconds:g} s", "")


def main() -> None:
    """Judge the named bugs, or all."""
    file, names = Path(sys.argv[1]), sys.argv[2:] or [bug.name for bug in BUGS]
    verdicts = {name: asdict(verdict) for name, verdict in judge_all(names).items()}
    file.write_text(json.dumps(verdicts, indent=1) + "\n", encoding="utf-8")
    missed = [name for name, verdict in verdicts.items() if not verdict["found"]]
    print(f"{len(verdicts) - len(missed)} of {len(verdicts)} found; missed: {', '.join(missed)}")


if __name__ == "__main__":
    main()
