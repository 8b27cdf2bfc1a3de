"""What the checker says of the seeded bugs: run under it, each finding held against the table.

    python tests/check/judging.py FILE [NAME...]

writes {bug: verdict}, one verdict a bug, in the form that tools/bug_table.py reads. Verdicts that
FILE holds stay; without names those are made that it lacks or that are of other sources or of
another checker than today's (tests/check/bugs/digest.py).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from tests.check.bugs.bug import Bug  # noqa: E402
from tests.check.bugs.digest import digest, digest_of_checker  # noqa: E402
from tests.check.bugs.table import BUGS, BY_NAME  # noqa: E402

SCRIPT = "tests/check/run_bug.py"
SECONDS_EACH = 600.0  # for one bug, compiling included, on a busy machine
GIVE_UP = 500.0  # the checker must have ended an endless kernel by then

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
) -> tuple[list[Finding] | None, list[dict[str, Any]], str]:
    """Run names in one process under the checker; findings, results of run_bug.py, output.

    Findings: None where the process ended before it had written them.
    """
    with tempfile.TemporaryDirectory() as folder:
        found, out = Path(folder, "findings.json"), Path(folder, "results.json")
        script = [SCRIPT, *names, *flags, "--give-up", str(give_up), "--out", str(out)]
        command = ["-m", "lowgraph", "check", *script, "--json", str(found)]
        done = _run(*command, seconds=SECONDS_EACH * len(names))
        findings = _list(found, "findings") if found.is_file() else None
        results = _list(out, "results")
    return findings, results, done.stdout[-2000:]


def _list(file: Path, key: str) -> list[dict[str, Any]]:
    """A list in a JSON file, empty where the process died before it wrote one."""
    if not file.is_file():
        return []
    content: list[dict[str, Any]] = json.loads(file.read_text(encoding="utf-8"))[key]
    return content


def judge_all(names: Iterable[str]) -> dict[str, Verdict]:
    """Verdicts by name."""
    return {verdict.name: verdict for verdict in judge_each(names)}


def judge_each(names: Iterable[str]) -> Iterator[Verdict]:
    """A verdict for each name. Several share a process, until one of them loses the context.

    Where the process itself is lost, and with it the findings of all, fewer share the next one.
    """
    waiting, most = list(names), len(BUGS)
    while waiting:
        group = _group(waiting)[:most]
        findings, results, output = check(group)
        if findings is None and len(group) > 1:
            most = len(group) // 2
            continue
        ran = {r["name"]: r["result"] for r in results if r["result"] != "not run"}
        # The first one counts as run in any case, or a process that died would come again.
        done = [name for name in group if name in ran or name == group[0]]
        for name in done:
            yield judge(BY_NAME[name], findings or [], ran.get(name, output))
        waiting = [name for name in waiting if name not in done]


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


def is_of(verdict: Mapping[str, Any], key: Mapping[str, str]) -> bool:
    """Whether a verdict is of the source and the checker that `key` names."""
    return all(verdict.get(name) == value for name, value in key.items())


def main() -> None:
    """Judge the named bugs, or those that the file lacks; it is written after every verdict."""
    file, held = Path(sys.argv[1]), dict[str, dict[str, Any]]()
    if file.is_file():
        held = json.loads(file.read_text(encoding="utf-8"))
    of_today = digest_of_checker()
    today = {bug.name: {"source": digest(bug), "checker": of_today} for bug in BUGS}
    lacking = [name for name, key in today.items() if not is_of(held.get(name, {}), key)]
    for verdict in judge_each(sys.argv[2:] or lacking):
        held[verdict.name] = {**asdict(verdict), **today[verdict.name]}
        told = {name: held[name] for name in today if name in held}
        file.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    missed = [name for name, verdict in held.items() if not verdict["found"]]
    print(f"{len(held) - len(missed)} of {len(held)} found; missed: {', '.join(missed)}")


if __name__ == "__main__":
    main()
