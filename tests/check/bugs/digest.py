"""What a recorded run was of: one of other sources than today's is told by its digest."""

from __future__ import annotations

import hashlib
import inspect
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from lowgraph import hostdev
from tests.check.bugs.bug import KERNELS, Bug
from tests.check.bugs.scenarios import SCENARIOS
from tests.check.bugs.table import BUGS

HOSTDEV = Path(hostdev.__file__).parent
# The checker, the race detector, what they look for in asynchronous copies, and what the kernels of
# the check build are made with.
CHECKER = (
    "src/check*", "src/race*", "src/async_copies*", "include/cuda_on_host/*.h", "assembly.py"
)  # fmt: skip
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
INCLUDE = re.compile(r'^#include "(?:[^"\n]*/)?([^"/\n]+)"', re.MULTILINE)


def digest(bug: Bug) -> str:
    """Of the changed source and the headers it includes, its scenario's function and its fault.

    Comments and white space do not count. Launchers and what scenarios share are not looked at.
    """
    return _hash([*_code(bug.changed()), *_program(bug.scenario), bug.fault])


def digest_of_clean() -> str:
    """Of all scenarios with the kernels as they are."""
    sources = [text for bug in BUGS for text in _code(bug.source.read_text(encoding="utf-8"))]
    return _hash([*sources, *(text for name in sorted(SCENARIOS) for text in _program(name))])


def digest_of_checker(home: Path = HOSTDEV) -> str:
    """Of what looks at accesses and tells of them: CHECKER, comments and white space aside.

    A verdict of the check build is of this one too; what a GPU or a plain run said is not.
    """
    files = sorted(file for pattern in CHECKER for file in home.glob(pattern))
    return _hash(word for file in files for word in (file.name, *_words(file.read_text())))


def _code(source: str) -> list[str]:
    """The words of a source and, once each, of the headers of ours that it includes."""
    waiting, headers = [source], dict[str, str]()
    while waiting:
        for name in INCLUDE.findall(waiting.pop()):
            header = KERNELS / "common" / name
            if name not in headers and header.is_file():
                headers[name] = header.read_text(encoding="utf-8")
                waiting.append(headers[name])
    return [*_words(source), *(word for name in sorted(headers) for word in _words(headers[name]))]


def _words(source: str) -> list[str]:
    return COMMENT.sub(" ", source).split()


def _program(scenario: str) -> Iterator[str]:
    yield from inspect.getsource(SCENARIOS[scenario]).split()


def _hash(words: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(words).encode()).hexdigest()[:12]
