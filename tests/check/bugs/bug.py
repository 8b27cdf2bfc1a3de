"""A seeded bug as data: one exact replacement in a kernel, or one fault of the host code.

A bug is at home in a source file and a kernel. Its places are where a checker may rightly point:
the lines of the replacement, or those of the texts in `at` and of the helper functions in
`through`, which are inlined into the kernel.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
KERNELS = ROOT / "kernels_cu"
OWN = Path(__file__).resolve().parent

KINDS = (
    "out-of-bounds",
    "use-after-free",
    "uninitialised-read",
    "misaligned",
    "host-pointer",
    "shared-race",
    "global-race",
    "divergent-barrier",
    "shuffle-mask",
    "node-race",
    "endless-kernel",
)

Place = tuple[str, int]
"""Name of a source file without its folder, and a line of it."""


@dataclass(frozen=True)
class Bug:
    """One seeded bug.

    Attributes
    ----------
    name: unique; a changed source is called `<name>.cu`, so a finding's file tells its bug.
    file: the source, of kernels_cu or of this folder. kernel: the one that goes wrong.
    old, new: the replacement; `old` occurs exactly once in the file. Empty: the scenario does it
        wrong, told by `fault`.
    kind: what it is. why: what makes it a bug of that kind on a GPU, in one sentence.
    scenario: the host program that runs it. fault: what that program is to do wrong.
    at: texts of the changed file, each occurring once, on whose (first) lines it may be found.
    through: functions, of this file or of kernels_cu/common, on whose lines it may be found.
    span: two texts; it may be found from the first one's line to the second one's (a loop).
    other_kinds: (kind, reason) of kinds that are right as well.
    """

    name: str
    file: str
    kernel: str
    old: str
    new: str
    kind: str
    scenario: str
    why: str
    fault: str = ""
    at: tuple[str, ...] = ()
    through: tuple[str, ...] = ()
    span: tuple[str, str] | None = None
    other_kinds: tuple[tuple[str, str], ...] = ()

    @property
    def source(self) -> Path:
        """The unchanged source."""
        return original(self.file)

    @property
    def is_alone(self) -> bool:
        """Whether it needs a process of its own: it does not end, so nothing can follow it."""
        return self.kind == "endless-kernel"

    def changed(self) -> str:
        """The source with the bug. Raises ValueError unless `old` occurs exactly once."""
        text = self.source.read_text(encoding="utf-8")
        if not self.old:
            return text
        if text.count(self.old) != 1:
            raise ValueError(f"{self.name}: `old` occurs {text.count(self.old)} times")
        return text.replace(self.old, self.new)

    def places(self) -> frozenset[Place]:
        """Where it may be found; empty for a race of nodes, which is between two launches."""
        text, file = self.changed(), f"{self.name}.cu"
        found = {(file, _line_of(text, snippet, self.name)) for snippet in self.at}
        if self.span is not None:
            first, last = (_line_of(text, snippet, self.name) for snippet in self.span)
            found |= {(file, line) for line in range(first, last + 1)}
        elif self.new and not self.at:
            first = _line_of(text, self.new, self.name)
            found |= {(file, first + n) for n in range(self.new.rstrip("\n").count("\n") + 1)}
        for helper in self.through:
            found |= set(_helper_lines(helper, text, file))
        return frozenset(found)


def original(file: str) -> Path:
    """An unchanged source of this folder or of kernels_cu."""
    own = OWN / file
    return own if own.is_file() else KERNELS / file


def write_changed(folder: Path, bug: Bug) -> None:
    """Write the bug's source as `<name>.cu`; the headers it includes are those of kernels_cu."""
    (folder / f"{bug.name}.cu").write_text(bug.changed(), encoding="utf-8")


def _line_of(text: str, snippet: str, name: str) -> int:
    if text.count(snippet) != 1:
        raise ValueError(f"{name}: {snippet!r} occurs {text.count(snippet)} times")
    return text.count("\n", 0, text.index(snippet)) + 1


def _helper_lines(helper: str, text: str, file: str) -> Iterator[Place]:
    headers = sorted((KERNELS / "common").glob("*.cuh"))
    sources = [(file, text), *((path.name, path.read_text(encoding="utf-8")) for path in headers)]
    head = re.compile(rf"^__device__[^;{{}}]*\b{helper}\([^{{}};]*\)\s*{{", re.MULTILINE)
    found = [(name, body, match) for name, body in sources for match in head.finditer(body)]
    for name, body, match in found:  # more than one where a function has overloads
        first = body.count("\n", 0, match.start()) + 1
        last = body.count("\n", 0, body.index("\n}", match.end())) + 2
        yield from ((name, line) for line in range(first, last + 1))
    if not found:
        raise ValueError(f"no function {helper} in {file} or kernels_cu/common")
