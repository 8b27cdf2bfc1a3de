"""What compute-sanitizer finds of the seeded bugs: on a machine with a GPU,

    python tools/sanitizer_table.py FILE [--tools plain,memcheck,racecheck,initcheck,synccheck]
        [--sanitizer PATH] [--jobs 16] [--seconds 600] [--timeout 60] [--names A,B] [--clean]
        [--device cuda] [--begin-with FILE]

Runs every bug of tests/check/bugs under every tool, many at once, in the order of the tools;
`plain` is no tool, says whether the results are right, and leaves the kernels in the build cache.
FILE is written after every run, and runs that it holds of today's sources (tests/check/bugs/digest)
are not made again; within --seconds the program ends, with what it has. Each run is a process group
of its own, killed at its timeout. With `--device host --tools plain` it fills the host device's
column, on any machine. --clean runs the scenarios without bugs as well, each tool over all of them:
it must report nothing. --begin-with: where there is no FILE yet, begin with the runs of this one,
if they are of the same GPU, driver and version of the sanitizer.

FILE: {"gpu", "driver", "version", "bugs": {bug: {tool: run}}, "clean": {tool: run}}; a run has
found, line (the report's first), place ("file:line" or ""), place_is_right, result (of run_bug.py),
exit (null: killed), seconds, log (the tool's first lines), source (the digest) and commit. A run
that was cut short by --seconds is left out.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.check.bugs.scenarios import SCENARIOS  # noqa: E402
from tests.check.bugs.table import BUGS, BY_NAME  # noqa: E402
from tools.environment import environment  # noqa: E402
from tools.run_file import CLEAN, Table  # noqa: E402

TOOLS = ("plain", "memcheck", "racecheck", "initcheck", "synccheck")
ERRORS_FOUND = 99
PROOF = "fill_no_guard"
# What a report begins with, in any tool. A failed driver call ("Program hit") is none of them: it
# follows from the fault, and says nothing that the plain run does not say.
REPORT = re.compile(
    r"Invalid __|misaligned|Uninitialized|uninitialized memory|Race reported|hazards\]"
    r"|Barrier error|Divergent thread|Invalid (?:arguments|mask)|Invalid \w+ (?:read|write)",
    re.IGNORECASE,
)
PLACE = re.compile(r"([\w.]+\.cuh?):(\d+)")
ENDLESS = 20  # seconds until run_bug.py ends by itself, compiling included; others: the timeout
FIRST_PORT, PORTS = 51000, 20  # each job has ports of its own: the tools meet on 54312 otherwise


def facts(device: str, sanitizer: str) -> dict[str, str]:
    """What all runs of a file have in common: gpu, driver and the sanitizer's version."""
    if device == "host":
        return {"gpu": "host device", "driver": "", "version": ""}
    code, text = run_group([sanitizer, "--version"], 30) if sanitizer else (0, "")
    version = [line for line in text.splitlines() if "ersion" in line]
    here = environment()
    told = version[0].strip() if code == 0 and version else text[:200]
    return {"gpu": here["gpu"], "driver": here["driver"], "version": told}


def command_of(name: str, tool: str, port: int, out: Path, args: argparse.Namespace) -> list[str]:
    endless = name != CLEAN and BY_NAME[name].is_alone
    give_up = ENDLESS if endless else max(1, args.timeout - 10)
    names = ["--clean", *SCENARIOS] if name == CLEAN else [name]
    script = [sys.executable, str(ROOT / "tests/check/run_bug.py"), *names, "--device"]
    script += [args.device, "--give-up", str(give_up), "--out", str(out)]
    script += ["--separate"] if args.device.startswith("cuda") else []
    if tool == "plain":
        return script
    watch = [args.sanitizer, "--tool", tool, "--print-limit", "3"]
    watch += ["--error-exitcode", str(ERRORS_FOUND), "--report-api-errors", "no"]
    return [*watch, "--port", str(port), "--max-connections", str(PORTS), *script]


def run_group(command: list[str], seconds: float) -> tuple[int | None, str]:
    """Exit code (None: killed) and output of a command and all that it starts.

    Files of the checkout are named from its root: what a file keeps is of no one machine.
    """
    with tempfile.TemporaryFile("w+", errors="replace") as output:
        process = subprocess.Popen(
            command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            code: int | None = process.wait(seconds)
        except subprocess.TimeoutExpired:
            code = None
            os.killpg(process.pid, signal.SIGKILL)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                print(f"{command[-1]}: not gone 10 s after the kill", flush=True)
        output.seek(0)
        return code, output.read().replace(f"{ROOT}/", "")


def parse(
    name: str, code: int | None, output: str, results: list[dict[str, Any]]
) -> dict[str, Any]:
    """What a run's output says."""
    lines = [line.removeprefix("=========").strip() for line in output.splitlines()
             if line.startswith("=========")]  # fmt: skip
    first = next((i for i, line in enumerate(lines) if REPORT.search(line)), None)
    place = None
    if first is not None:
        place = next((m for line in lines[first : first + 6] if (m := PLACE.search(line))), None)
    right = place is not None and name in BY_NAME and (
        (place[1], int(place[2])) in BY_NAME[name].places()
    )  # fmt: skip
    return {
        "found": first is not None,
        "line": "" if first is None else lines[first],
        "place": "" if place is None else place[0],
        "place_is_right": right,
        "result": results[0]["result"] if len(results) == 1 else [r["result"] for r in results],
        "exit": code,
        "log": lines[:24] if lines else output.splitlines()[-8:],
    }


def run_one(name: str, tool: str, table: Table, args: argparse.Namespace) -> None:
    """Make a run, unless the time is up, and enter it."""
    if (run := make(name, tool, args)) is not None:
        table.put(name, tool, run)


def longest(name: str, timeout: float) -> float:
    """Seconds for a run: all scenarios take longer, and an endless kernel tells nothing new."""
    if name == CLEAN:
        return timeout * 4
    return min(timeout, 2 * ENDLESS) if BY_NAME[name].is_alone else timeout


def make(name: str, tool: str, args: argparse.Namespace) -> dict[str, Any] | None:
    """A run; None when the time is up before it ends."""
    left = args.deadline - time.monotonic()
    if left < 5:
        return None
    limit = min(longest(name, args.timeout), left)
    slot = args.slots.get()
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "result.json")
        try:
            port = FIRST_PORT + PORTS * slot
            code, output = run_group(command_of(name, tool, port, out, args), limit)
        finally:
            args.slots.put(slot)
        results = json.loads(out.read_text(encoding="utf-8"))["results"] if out.is_file() else []
    if code is None and limit < longest(name, args.timeout):
        return None  # the program's time was up, not the run's: to be made again
    run = {**parse(name, code, output, results), "seconds": round(time.monotonic() - begin, 1)}
    print(f"{tool} {name}: {run['result']} {run['line']} {run['place']} ({run['seconds']} s)",
          flush=True)  # fmt: skip
    return run


def prove(table: Table, args: argparse.Namespace) -> None:
    """Run the bug that memcheck must see, before any other: what sees nothing here reports nothing.

    On a machine that compute-sanitizer does not support each bug would count as missed.
    """
    run = make(PROOF, "memcheck", args)
    if run is None or not run["found"]:
        log = run["log"] if run else "no time"
        raise SystemExit(f"memcheck does not see {PROOF} here, so no tool is run: {log}")
    table.put(PROOF, "memcheck", run)


def todo(table: Table, args: argparse.Namespace) -> tuple[list[Any], list[Any]]:
    """(bug, tool) pairs still to be run: those that end, and those that do not, for the last."""
    names = args.names.split(",") if args.names else [bug.name for bug in BUGS]
    pairs = [(name, tool) for tool in args.tools.split(",") for name in names]
    if args.clean:
        pairs += [(CLEAN, tool) for tool in args.tools.split(",")]
    open_pairs = [pair for pair in pairs if not table.has(*pair)]
    endless = [pair for pair in open_pairs if pair[0] != CLEAN and BY_NAME[pair[0]].is_alone]
    return [pair for pair in open_pairs if pair not in endless], endless


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--tools", default=",".join(TOOLS))
    parser.add_argument("--sanitizer", default=shutil.which("compute-sanitizer") or "")
    parser.add_argument("--jobs", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--timeout", type=float, default=60)
    parser.add_argument("--names", default="")
    parser.add_argument("--clean", action="store_true")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--begin-with", type=Path)
    args = parser.parse_args()
    foreign = set(args.tools.split(",")) - set(TOOLS)
    unknown = set(filter(None, args.names.split(","))) - set(BY_NAME)
    if foreign or unknown:
        parser.error(f"unknown: {', '.join(sorted(foreign | unknown))}")
    if not args.sanitizer and args.tools != "plain":
        parser.error("compute-sanitizer is not on PATH: give --sanitizer")
    return args


def main() -> None:
    args = arguments()
    args.deadline = time.monotonic() + args.seconds - 15  # for killing, and for the last write
    args.slots = queue.SimpleQueue()
    for slot in range(args.jobs):
        args.slots.put(slot)
    table = Table(args.file, args.begin_with, facts(args.device, args.sanitizer))
    if any(tool != "plain" for pairs in todo(table, args) for _, tool in pairs):
        prove(table, args)
    finite, endless = todo(table, args)
    # Few at a time where a kernel holds the GPU until its process is gone.
    for pairs, jobs in ((finite, args.jobs), (endless, min(args.jobs, 4))):
        with ThreadPoolExecutor(jobs) as pool:
            list(pool.map(lambda pair: run_one(*pair, table, args), pairs))
    left = sum(map(len, todo(table, args)))
    print(f"{left} runs left" if left else "complete", flush=True)


if __name__ == "__main__":
    main()
