"""Record what a driver answers to random sequences, and compare two recordings:

    python tests/traces/record_wild.py run --device D --out F.json.gz FIRST COUNT [--jobs N]
    python tests/traces/record_wild.py compare A.json.gz B.json.gz [--json]

A recording is one gzipped JSON object: gpu, driver, sequences: {seed: [[step, code, [capture status
of streams s, t, u, b], extra], ...]}, fatal: [step]. Sequences run in processes of 50, so that one
that ends its process, or takes longer than a minute, is left out and its last step is in `fatal`.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from lowgraph.driver import Device, open_device
from tests.traces.verbs import perform
from tests.traces.wild import scenario_of
from tests.traces.world import STREAM_NAMES, World, module_image

Calls = list[list[Any]]
CHUNK = 50
CHUNK_SECONDS = 60
_TRYING = "trying "
# What driver 580.159 ends the process by is not made for the seeds from here on; of those before,
# recorded with it, the sequences are missing that ended so.
_SPARED = 600_000  # a graph as a child of itself
_FATAL = re.compile(r"@?add_child \w+ (\w+) \1\b")
# A destroyed conditional node: it dies, or finds the node that has its address now.
_SPARED_STALE = 702_400
_OF_CONDITIONAL = re.compile(r"@?cond_(?:destroy|set_enabled \w+) (\w+)")
NOT_READY = 600  # whether work in flight is done is not the rules' business


def answers(
    device: Device, image: bytes, seed: int, before: Callable[[str], None] | None = None
) -> Calls:
    """Run one sequence: [[step, code, statuses, extra], ...] up to JSON's types.

    The code of a step is "missing" when nothing has the name that it speaks of. `before` is told
    each step ahead of its call.
    """
    scenario = scenario_of(seed)
    world = World(device, image, scenario.modes[0])
    calls: Calls = []
    destroyed: set[str] = set()
    try:
        for step in scenario.steps:
            if before is not None:
                before(step)
            code: int | str = "not made"
            extra = None
            try:
                if not _is_spared(seed, step, destroyed):
                    code, extra = perform(world, step)
            except (KeyError, IndexError):
                code = "missing"
            if code == 0:
                _note_conditional(step, destroyed)
            calls.append([step, 0 if code == NOT_READY else code, world.status(), extra])
    finally:
        world.other.submit(_end_captures, world).result()
        _end_captures(world)
        world.close()
    found: Calls = json.loads(json.dumps(calls))
    return found


def _is_spared(seed: int, step: str, destroyed: set[str]) -> bool:
    """Whether the step is not made, as a driver might not live on; with the conditional nodes that
    are destroyed."""
    if seed >= _SPARED and _FATAL.match(step):
        return True
    named = _OF_CONDITIONAL.match(step)
    return seed >= _SPARED_STALE and named is not None and named[1] in destroyed


def _note_conditional(step: str, destroyed: set[str]) -> None:
    """Keep the names whose conditional node is gone, behind a step that was done."""
    verb, *names = step.removeprefix("@").split()
    if verb == "cond_destroy":
        destroyed.add(names[0])
    elif verb == "cond_add":
        destroyed.discard(names[0])


def _end_captures(world: World) -> None:
    """End what the calling thread still captures, its per-thread stream too, and take back its
    mode: the next sequence begins like the first."""
    perform(world, "exchange_mode GLOBAL")
    for _ in range(2):  # an origin's end may have to come before its fork's
        for stream in (*STREAM_NAMES, "per_thread"):
            if perform(world, f"is_capturing {stream}")[1]:
                perform(world, f"end {stream} rest")


def load(path: Path) -> dict[str, Any]:
    """Read a recording."""
    recording: dict[str, Any] = json.loads(gzip.decompress(path.read_bytes()))
    return recording


def first_difference(left: Calls, right: Calls) -> int | None:
    """Place of the first call answered otherwise."""
    pairs = zip(left, right, strict=True)
    return next((place for place, (one, other) in enumerate(pairs) if one != other), None)


def _chunk(device: str, first: int, count: int) -> tuple[dict[str, Calls], str]:
    """The seeds' answers, from a process of its own that prints one a line; its last step."""
    command = [sys.executable, __file__, "chunk", "--device", device, str(first), str(count)]
    found: dict[str, Calls] = {}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            out, _ = process.communicate(timeout=CHUNK_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            out, _ = process.communicate()
    last = ""
    for line in out.splitlines():
        if line.startswith(_TRYING):
            last = line.removeprefix(_TRYING)
        elif line.startswith("{") and line.endswith("}"):
            found.update(json.loads(line))
    return found, last


def _whole_chunk(device: str, first: int, count: int) -> tuple[dict[str, Calls], list[str]]:
    """`_chunk`, started again behind each sequence that ended its process; those with the step."""
    found: dict[str, Calls] = {}
    fatal = []
    seed = first
    while seed < first + count:
        more, last = _chunk(device, seed, first + count - seed)
        found |= more
        done = max((int(key) for key in found), default=first - 1)
        if done + 1 < first + count:
            fatal.append(last)
        seed = max(done + 2, seed + 1)
    return found, fatal


def _run(options: argparse.Namespace) -> int:
    starts = range(options.first, options.first + options.count, CHUNK)
    end = options.first + options.count
    with ThreadPoolExecutor(options.jobs) as several:
        jobs = [
            several.submit(_whole_chunk, options.device, start, min(CHUNK, end - start))
            for start in starts
        ]
        results = [job.result() for job in jobs]
    sequences = {seed: calls for found, _ in results for seed, calls in found.items()}
    fatal = [step for _, steps in results for step in steps]
    device = open_device(options.device)
    recording = {"gpu": device.title, "driver": device.driver_version, "fatal": fatal} | {
        "sequences": sequences
    }
    data = gzip.compress(json.dumps(recording, separators=(",", ":")).encode(), mtime=0)
    options.out.write_bytes(data)
    print(f"{len(sequences)} of {options.count} sequences, {len(fatal)} fatal -> {options.out}")
    return 0


def _tell(seed: int, step: str) -> None:
    print(f"{_TRYING}{seed}: {step}", flush=True)


def _run_chunk(options: argparse.Namespace) -> int:
    device = open_device(options.device)
    image = module_image(device)
    for seed in range(options.first, options.first + options.count):
        found = answers(device, image, seed, partial(_tell, seed))
        print(json.dumps({str(seed): found}), flush=True)
    return 0


def _groups(one: dict[str, Calls], other: dict[str, Calls]) -> dict[str, list[list[Any]]]:
    """Where sequences differ first, [seed, place], by the verb and its two answers."""
    found: dict[str, list[list[Any]]] = {}
    for seed in sorted(one.keys() & other.keys()):
        place = first_difference(one[seed], other[seed])
        if place is None:
            continue
        left, right = one[seed][place], other[seed][place]
        kind = f"{left[0].removeprefix('@').split()[0]}: {left[1:]} / {right[1:]}"
        found.setdefault(kind, []).append([seed, place])
    return found


def _compare(options: argparse.Namespace) -> int:
    one, other = load(options.one)["sequences"], load(options.other)["sequences"]
    groups = _groups(one, other)
    both, differ = len(one.keys() & other.keys()), sum(map(len, groups.values()))
    if options.json:
        print(json.dumps({"both": both, "alike": both - differ, "differences": groups}))
        return 0
    print(f"{both - differ} of {both} sequences answered alike")
    for kind, places in sorted(groups.items(), key=lambda item: -len(item[1])):
        seed, place = places[0]
        print(f"{len(places)} x {kind}, e.g. seed {seed} call {place}")
    return 0


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    for name, run in (("run", _run), ("chunk", _run_chunk)):
        command = commands.add_parser(name)
        command.set_defaults(run=run)
        command.add_argument("--device", default="auto", help="auto, host, cuda or cuda:N")
        command.add_argument("first", type=int)
        command.add_argument("count", type=int)
        if name == "run":
            command.add_argument("--out", type=Path, required=True)
            command.add_argument("--jobs", type=int, default=2, help="processes at a time")
    compare = commands.add_parser("compare")
    compare.set_defaults(run=_compare)
    compare.add_argument("one", type=Path)
    compare.add_argument("other", type=Path)
    compare.add_argument("--json", action="store_true", help="{both, alike, differences: {...}}")
    options = parser.parse_args()
    result: int = options.run(options)
    return result


if __name__ == "__main__":
    sys.exit(main())
