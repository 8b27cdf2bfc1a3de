"""Kernel signatures, read from the CUDA source: each parameter's name, type and element type.

A kernel is declared as

    extern "C" __global__ void [__launch_bounds__(...)] name(const float* __restrict__ x, int n)

with line breaks, comments and attributes anywhere. Kernels without `extern "C"` (templates,
helpers) are not launchable by name and are passed over. A parameter's type may be a macro that the
compiler is given on its command line (`-Dact_t=float`); no other macro is seen here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lowgraph.errors import KernelSourceError
from lowgraph.kernels import cuda_types


@dataclass(frozen=True)
class Param:
    """One kernel parameter.

    ctype: the declared type without qualifiers, "float*", "int".
    dtype: element type of the value, or of what a pointer points at; None if NumPy has none.
    pointer: whether an address is passed. const: whether the pointee is const (an input).
    code: the struct module's letter of the value passed.
    """

    name: str
    ctype: str
    dtype: np.dtype[Any] | None
    pointer: bool
    const: bool
    code: str


@dataclass(frozen=True)
class Signature:
    """A kernel's name, parameters in order, and where it is declared.

    file: None where there is no file of it; line: 0 where it is not in the file's text.
    """

    name: str
    params: tuple[Param, ...]
    file: Path | None
    line: int

    def __str__(self) -> str:
        """Return it as C, without qualifiers."""
        return f"{self.name}({', '.join(f'{p.ctype} {p.name}' for p in self.params)})"


_TOKEN = re.compile(
    r"""(?P<drop>//(?:\\\n|[^\n])*|/\*.*?\*/|^[ \t]*\#(?:\\\n|[^\n])*)"""
    r"""|"(?:\\.|[^"\\\n])*"|'(?:\\[^'\n]+|\\'|[^'\\\n])'""",
    re.DOTALL | re.MULTILINE,
)
_GLOBAL = re.compile(r"\b__global__\b")
_EXTERN_C = re.compile(r'extern\s*"C"\s*((?:[A-Za-z_]\w*\s*(?:\([^()]*\)\s*)?)*)$')
_ATTRIBUTE = re.compile(r"\s*(?:__\w+__\s*\((?:[^()]|\([^()]*\))*\)|\b(?:static|inline|__\w+__)\b)")
_VOID = re.compile(r"\s*void\b")
_NAME = re.compile(r"\s*([A-Za-z_]\w*)\s*\(")
_QUALIFIER = re.compile(
    r"\b(?:__restrict__|__restrict|restrict|volatile|register|__grid_constant__)\b"
)


def read_signature(path: Path, name: str, defines: Mapping[str, str] | None = None) -> Signature:
    """Return the signature of kernel `name` of a source file.

    defines: macros of the compiler's command line; a type that is one stands for its value.
    Raises KernelSourceError (file:line) when there is no such kernel, when a parameter cannot be
    passed or read, and when the file declares the kernel twice with different parameters.
    """
    return read_text(_read(path), name, path, defines)


def read_text(
    text: str, name: str, origin: Path | str, defines: Mapping[str, str] | None = None
) -> Signature:
    """`read_signature` of a source that is text. origin: its file, or what to call it."""
    text = _blank(text)
    found: Signature | None = None
    types = defines or {}
    names: list[str] = []
    for declared, params, position in _declarations(text, origin):
        names.append(declared)
        if declared != name:
            continue
        line = _line(text, position)
        place = f"{origin}:{line}: kernel {name}"
        parsed = tuple(_param(item, types, place) for item in _split(params))
        if found is not None and found.params != parsed:
            raise KernelSourceError(
                f"{origin}:{line}: kernel {name} differs from line {found.line}"
            )
        found = Signature(name, parsed, origin if isinstance(origin, Path) else None, line)
    if found is None:
        raise KernelSourceError(
            f'{origin} declares no kernel {name} as `extern "C" __global__ void {name}(...)`; '
            f"it has {', '.join(names) or 'none'}"
        )
    return found


def declared(name: str, params: str, file: Path | None = None) -> Signature:
    """Return the signature of a kernel, or a function of C, whose parameter list is given as text.

    params: "float* y, const float* x, int n". file: that it belongs to. Raises KernelSourceError.
    """
    place = f"the parameters of {name}"
    parsed = tuple(_param(item, {}, place) for item in _split(_blank(params)))
    return Signature(name, parsed, file, 0)


def kernel_names(path: Path) -> list[str]:
    """Return the names of the launchable kernels of a source file, each once, in order."""
    text = _blank(_read(path))
    return list(dict.fromkeys(name for name, _, _ in _declarations(text, path)))


def _read(path: Path) -> str:
    # Names and types are ASCII; a comment may be in any encoding.
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise KernelSourceError(f"{path} cannot be read: {error.strerror or error}") from error


def _blank(text: str) -> str:
    """Return the text with comments and preprocessor lines as spaces, line breaks kept."""

    def blank(match: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", match.group()) if match["drop"] else match.group()

    return _TOKEN.sub(blank, text)


def _line(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def _declarations(text: str, path: Path | str) -> Iterator[tuple[str, str, int]]:
    """Yield (name, parameter list, position of the declaration) of each extern "C" kernel."""
    for match in _GLOBAL.finditer(text):
        if not _EXTERN_C.search(text, _statement_start(text, match.start()), match.start()):
            continue
        place = f"{path}:{_line(text, match.start())}"
        void = _VOID.match(text, _skip_attributes(text, match.end()))
        if void is None:
            raise KernelSourceError(f"{place}: a kernel must return void, by that word")
        name = _NAME.match(text, _skip_attributes(text, void.end()))
        if name is None:
            raise KernelSourceError(f"{place}: cannot read the kernel's name")
        yield name.group(1), text[name.end() : _closing(text, name.end(), place)], match.start()


def _statement_start(text: str, position: int) -> int:
    return max(text.rfind(mark, 0, position) for mark in ";}") + 1


def _skip_attributes(text: str, position: int) -> int:
    while (match := _ATTRIBUTE.match(text, position)) is not None:
        position = match.end()
    return position


def _closing(text: str, start: int, place: str) -> int:
    """Return the position of the parenthesis that closes the one before `start`."""
    depth = 1
    for position in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[position], 0)
        if depth == 0:
            return position
    raise KernelSourceError(f"{place}: the parameter list is not closed")


def _split(params: str) -> list[str]:
    """Split a parameter list at its top-level commas."""
    items, depth, start = [], 0, 0
    for position, letter in enumerate(params):
        depth += {"(": 1, "<": 1, "[": 1, ")": -1, ">": -1, "]": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            items.append(params[start:position])
            start = position + 1
    items.append(params[start:])
    return [] if items in ([""], ["void"]) or not params.strip() else items


def _param(text: str, types: Mapping[str, str], place: str) -> Param:
    plain = " ".join(_QUALIFIER.sub(" ", text).split())
    match = re.fullmatch(r"(.*?[\s*])([A-Za-z_]\w*)\s*((?:\[[^\]]*\])?)", plain)
    if match is None:
        raise KernelSourceError(f"{place}: cannot read the parameter {plain!r}")
    declared, name, array = match.groups()
    stars = declared.count("*") + bool(array)
    pointee = declared.partition("*")[0]
    words = (word for word in pointee.split() if word not in ("const", "struct"))
    base = " ".join(types.get(word, word) for word in words)
    const = stars > 0 and "const" in pointee.split()
    try:
        dtype, code = cuda_types.element(base, stars)
    except KeyError:
        raise KernelSourceError(
            f"{place}: parameter {name} has type {base!r}: only numbers and pointers are passed; "
            "put a struct into device memory and pass its address"
        ) from None
    return Param(name, base + "*" * stars, dtype, stars > 0, const, code)
