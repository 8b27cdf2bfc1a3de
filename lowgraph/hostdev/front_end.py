"""The front end of kernel_build: reads the marks in a preprocessed .cu file and replaces them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from lowgraph.errors import BuildError
from lowgraph.hostdev import check
from lowgraph.hostdev.refusals import refuse_unsupported

_GLOBAL = "LOWGRAPH_MARK_GLOBAL"
_SHARED = "LOWGRAPH_MARK_SHARED"
_BOUNDS = "LOWGRAPH_MARK_BOUNDS"

_PARENS = r"\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)"  # two levels of nesting inside
_BOUNDS_OPTIONAL = rf"(?:{_BOUNDS}\s*(?P<{{}}>{_PARENS})\s*)?"
_KERNEL = re.compile(
    r'extern\s+"C"\s+'
    + _BOUNDS_OPTIONAL.format("first")
    + rf"{_GLOBAL}\s+"
    + _BOUNDS_OPTIONAL.format("before")
    + r"void\s+"
    + _BOUNDS_OPTIONAL.format("after")
    + r"(?P<name>[A-Za-z_]\w*)\s*\("
)
_ALIGNMENT = rf"(?:(?:__attribute__|alignas)\s*{_PARENS}\s*)"
_DYNAMIC = re.compile(
    rf"extern\s+{_ALIGNMENT}?{_SHARED}\s+{_ALIGNMENT}?(?P<type>[\w:\s<>,]+?)\s*{_ALIGNMENT}?"
    r"\b(?P<name>[A-Za-z_]\w*)\s*\[\s*\]\s*;"
)
_EXTERN_SHARED = rf"extern\s+{_ALIGNMENT}?{_SHARED}"
_ALIGNED_SHARED = re.compile(rf"{_SHARED}\s+(alignas\s*{_PARENS})")
_HIDDEN = '__attribute__((visibility("hidden")))'  # reached through its table entry only
_LINE_MARKER = re.compile(r'^# (\d+) "((?:[^"\\]|\\.)*)".*\n', re.MULTILINE)

_BRACES = re.compile(  # those of literals are passed over
    r'"(?:\\.|[^"\\\n])*"|' + r"'(?:\\.|[^'\\\n])+'"
    r"|(?P<space>\bnamespace\b[\w\s:]*)?(?P<opens>\{)|(?P<closes>\})"
)

_KERNEL_FORM = (
    'write `extern "C" __global__ void name(...)` on each kernel (no template, no namespace, no '
    "static)"
)
_SHARED_FORM = "write `extern __shared__ type name[];` inside the kernel, one array a declaration"


@dataclass(frozen=True)
class Unit:
    """A translated file: C++ text without marks, and the names of its kernels, in order."""

    text: str
    kernels: tuple[str, ...]


@dataclass
class _Kernels:
    """Kernels found so far: where each one is, and its launch bound as an expression."""

    places: dict[str, tuple[str, int]] = field(default_factory=dict)
    bounds: dict[str, str] = field(default_factory=dict)


def translate(text: str, source: Path) -> Unit:
    """Replaces the marks in the preprocessed `text` of `source`; see the module kernel_build.

    Raises BuildError with file:line for a kernel or a shared array in another form, for a file
    without any kernel, and for what the host device cannot run (module refusals).
    """
    refuse_unsupported(text, source)
    places = _Places(text, source)
    found = _Kernels()

    def kernel(match: re.Match[str]) -> str:
        name = match["name"]
        file, line = places.at(match.start("name"))
        _refuse_namespace(text, match.start(), file, f"{file}:{line}: kernel {name}")
        found.places.setdefault(name, (file, line))
        bound = match["first"] or match["before"] or match["after"]
        if bound:
            found.bounds[name] = _first_argument(bound)
        return f'extern "C" {_HIDDEN} void {name}(' + "\n" * match[0].count("\n")

    def dynamic(match: re.Match[str]) -> str:
        return _dynamic_shared(match["type"].strip(), match["name"]) + "\n" * match[0].count("\n")

    # Both replacements keep the number of lines, so that the line markers stay true.
    body = _KERNEL.sub(kernel, text)
    body = _DYNAMIC.sub(dynamic, body)
    _refuse_leftovers(body, source)
    body = re.sub(rf"{_BOUNDS}\s*{_PARENS}", "", body)
    # A block runs on one OS thread, so a thread-local variable is one a block; alignas goes first.
    # To the compiler a variable that nobody writes is the constant 0, and one that nobody reads is
    # nothing: no access would be left to check.
    local = "__attribute__((used)) thread_local" if check.enabled() else "thread_local"
    body = _ALIGNED_SHARED.sub(rf"\1 {local}", body).replace(_SHARED, local)
    if not found.places:
        raise BuildError(f"{source}:1: no kernel in this file; {_KERNEL_FORM}")
    return Unit(body + "\n" + _entries(found), tuple(found.places))


def _dynamic_shared(type_name: str, name: str) -> str:
    inside = '__builtin_FUNCTION()[0] != 0, "extern __shared__ must be declared inside a function"'
    return f"{type_name}* const {name} = lowgraph_dynamic_shared<{type_name}>(); " + (
        f"static_assert({inside});"
    )


def _first_argument(parenthesised: str) -> str:
    depth, inner = 0, parenthesised[1:-1]
    for i, character in enumerate(inner):
        depth += (character in "(<") - (character in ")>")
        if character == "," and depth == 0:
            return inner[:i].strip()
    return inner.strip()


def _entries(found: _Kernels) -> str:
    """The table entries, each marked with its kernel's own line for the compiler's messages."""
    lines = []
    for name, (file, line) in found.places.items():
        bound = found.bounds.get(name, "1024")
        lines.append(f'# {line} "{file}"')
        lines.append(
            f'extern "C" LOWGRAPH_EXPORT constinit const lowgraph::KernelEntry '
            f'lowgraph_kernel_{name} = lowgraph_entry<&{name}>("{name}", (unsigned)({bound}));'
        )
    exported = '__attribute__((visibility("default")))'
    return "\n".join(lines).replace("LOWGRAPH_EXPORT", exported) + "\n"


def _refuse_leftovers(body: str, source: Path) -> None:
    for pattern, form in ((_GLOBAL, _KERNEL_FORM), (_EXTERN_SHARED, _SHARED_FORM)):
        left = re.search(pattern, body)
        if left is not None:
            file, line = _Places(body, source).at(left.start())
            what = "__global__" if pattern == _GLOBAL else "extern __shared__"
            raise BuildError(f"{file}:{line}: this {what} cannot be read; {form}")


def _refuse_namespace(text: str, end: int, file: str, what: str) -> None:
    """Raise BuildError if a namespace of its own file is open where the kernel begins.

    Its table entry stands at the end of the file, where it would have to be named with it.
    """
    open_blocks: list[bool] = []
    for part in _parts_of(text[:end], file):
        for found in _BRACES.finditer(part):
            if found["opens"]:
                open_blocks.append(found["space"] is not None)
            elif found["closes"] and open_blocks:
                open_blocks.pop()
    if any(open_blocks):
        raise BuildError(f"{what} is in a namespace: {_KERNEL_FORM}")


def _parts_of(text: str, file: str) -> Iterator[str]:
    """What stands between line markers and comes from the file."""
    start, here = 0, True  # before the first marker the text is the file's
    for marker in _LINE_MARKER.finditer(text):
        if here:
            yield text[start : marker.start()]
        start, here = marker.end(), marker[2] == file
    if here:
        yield text[start:]


class _Places:
    """From an offset in preprocessed text to the file and line that it came from."""

    def __init__(self, text: str, source: Path) -> None:
        self._text = text
        self._source = source

    def at(self, offset: int) -> tuple[str, int]:
        last = None
        for last in _LINE_MARKER.finditer(self._text, 0, offset):  # noqa: B007
            pass
        if last is None:
            return str(self._source), self._text.count("\n", 0, offset) + 1
        return last[2], int(last[1]) + self._text.count("\n", last.end(), offset)
