"""Runs seeded call sequences on a driver and compares what two drivers answered.

    python -m tests.conformance.runner run OUT.json FIRST COUNT [--device host]
    python -m tests.conformance.runner compare A.json B.json

The data in data/ was recorded on an NVIDIA H200, driver 580.159 (CUDA 13.0), which answered all
3 000 sequences alike in two runs: random.json.gz, seeds 1000 to 2499, and guided.json.gz, seeds
100000 to 101499. Each sequence is a list of [what, code, capture status of the three streams after
it, extra]; after a capture's end, extra holds the graph's node types and edges.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from lowgraph.driver import Device, open_device
from tests.conformance.objects import Fixtures
from tests.conformance.session import Entry, Session

HERE = Path(__file__).resolve().parent
RECORDED = (HERE / "data" / "random.json.gz", HERE / "data" / "guided.json.gz")

Answers = dict[str, list[Entry]]  # by seed, as text


@dataclass(frozen=True)
class Difference:
    """The first call of a sequence that two drivers answered differently; None: it is missing."""

    seed: str
    place: int
    first: Entry | None
    second: Entry | None

    @property
    def group(self) -> str:
        """Return what differences of one cause have in common."""
        entry = self.first or self.second or ["?"]
        call = str(entry[0]).split("(")[0]
        return f"{call}: {self.first and self.first[1:]} / {self.second and self.second[1:]}"


def load(path: Path) -> Answers:
    """Read recorded answers, gzipped or plain."""
    data = path.read_bytes()
    text = gzip.decompress(data) if path.suffix == ".gz" else data
    answers: Answers = json.loads(text)["sequences"]
    return answers


def prepare(device: Device) -> Fixtures:
    """Compile the sequences' kernels for the device and load them."""
    return Fixtures.load(device.compile(HERE / "sequence_kernels.cu", [], {}))


def differences(recorded: Answers, answered: Answers) -> list[Difference]:
    """Return the first difference of each sequence that is in both and not alike."""
    found = []
    for seed in recorded.keys() & answered.keys():
        first, second = recorded[seed], answered[seed]
        for place in range(max(len(first), len(second))):
            pair = [log[place] if place < len(log) else None for log in (first, second)]
            if pair[0] != pair[1]:
                found.append(Difference(seed, place, *pair))
                break
    return found


def summary(found: list[Difference], compared: int) -> str:
    """Return how many sequences are alike, and the differences by group with an example each."""
    groups: dict[str, list[Difference]] = defaultdict(list)
    for difference in found:
        groups[difference.group].append(difference)
    lines = [f"{compared - len(found)} of {compared} sequences answered alike"]
    for name, members in sorted(groups.items(), key=lambda item: -len(item[1])):
        example = min(members, key=lambda member: int(member.seed))
        lines.append(f"{len(members)} x {name}, e.g. seed {example.seed} call {example.place}")
    return "\n".join(lines)


def run(device: Device, seeds: range) -> Answers:
    """Run the sequences of the seeds."""
    fixtures = prepare(device)
    return {str(seed): Session(fixtures).run(seed) for seed in seeds}


def main() -> None:
    """Run the command line above."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    runs = commands.add_parser("run")
    runs.add_argument("out", type=Path)
    runs.add_argument("first", type=int)
    runs.add_argument("count", type=int)
    runs.add_argument("--device", default="host")
    compares = commands.add_parser("compare")
    compares.add_argument("recorded", type=Path)
    compares.add_argument("answered", type=Path)
    options = parser.parse_args()
    if options.command == "compare":
        recorded, answered = load(options.recorded), load(options.answered)
        compared = len(recorded.keys() & answered.keys())
        print(summary(differences(recorded, answered), compared))
        return
    device = open_device(options.device)
    answers = run(device, range(options.first, options.first + options.count))
    content = {"driver_version": device.driver_version, "gpu": device.title, "sequences": answers}
    options.out.write_text(json.dumps(content, separators=(",", ":")), encoding="utf-8")
    print(f"{len(answers)} sequences, {sum(map(len, answers.values()))} calls")


if __name__ == "__main__":
    main()
