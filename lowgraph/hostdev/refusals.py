"""Refuses CUDA features that the host device cannot run, where the user's own text names them.

Every refusal is a BuildError that begins with file:line and says what to do. Only the user's files
are searched: headers of CUDA, of the C++ library and of lowgraph may name what they like.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lowgraph.errors import BuildError
from lowgraph.hostdev.toolchain import INCLUDE_DIR, cuda_include_dirs

_LINE_MARKER = re.compile(r'^# (\d+) "((?:[^"\\]|\\.)*)"((?: \d)*).*\n', re.MULTILINE)
_ENTERED, _SYSTEM_HEADER = "1", "3"  # flags of a line marker
_LITERAL = re.compile(r'"(?:\\.|[^"\\\n])*"|' + r"'(?:\\.|[^'\\\n])+'")
_REFUSED_HEADER = re.compile(r'LOWGRAPH_MARK_REFUSED\("([^"]*)"\)')

_TWIN = (
    "write a portable twin of it between `#ifdef LOWGRAPH_HOST` and `#else` (docs/kernels.md "
    "has examples)"
)
_FEATURES = (
    (r"(?:asm|__asm|__asm__)\b", "inline assembly", _TWIN),
    (r"(?:nvcuda\s*::(?!\s*experimental\b)|wmma\s*::|__?mma_\w+)", "tensor cores", _TWIN),
    (r"(?:__pipeline_arrive_on\b|memcpy_async|nvcuda\s*::\s*experimental\b|"
     r"cuda\s*::\s*(?:pipeline|barrier)\b)", "an asynchronous copy",
     "use __pipeline_memcpy_async, __pipeline_commit and __pipeline_wait_prior, or " + _TWIN),
    (r"__cvta_\w+", "a raw address space conversion", _TWIN),
    (r"cuda\s*::\s*(?:std\s*::\s*)?atomic\w*", "cuda::atomic", "use atomicAdd, atomicCAS and kin"),
    (r"(?:(?:tex|surf)(?:[123]D|Cubemap)\w*\s*[<(]|cuda(?:Texture|Surface)Object_t\b)",
     "a texture or surface", "read plain device memory through a pointer, or " + _TWIN),
    (r"<<<", "a kernel launch in device code", "keep host code out of the .cu file and launch the "
     "kernel from Python; dynamic parallelism has no twin: split the kernel"),
    (r"cuda(?:Launch|Device|Stream|Event|Mem|Grid|Trigger|Get)\w+\s*\(",
     "a call of the CUDA runtime", "keep host code out of the .cu file; in a kernel, " + _TWIN),
    (r"__managed__\b", "a managed variable", "allocate it with cuMemAllocManaged and hand the "
     "kernel its address, or make it a __device__ variable (docs/kernels.md)"),
    (r"(?:__cluster_dims__|this_cluster|cluster_group|__cluster\w+)\b",
     "a thread block cluster", _TWIN),
)  # fmt: skip
_ANY_FEATURE = re.compile(
    "|".join(
        rf"(?P<f{i}>{'' if pattern == '<<<' else '(?<![.:>A-Za-z0-9_])'}{pattern})"
        for i, (pattern, _, _) in enumerate(_FEATURES)
    )
)


@dataclass(frozen=True)
class _Piece:
    """Text between two line markers: where it came from, and the user's line that led there."""

    text: str
    file: str
    line: int
    is_users: bool
    user_place: tuple[str, int]


def refuse_unsupported(text: str, source: Path) -> None:
    """Raise BuildError for the first feature in preprocessed `text` that cannot run here."""
    for piece in _pieces(text, source):
        header = _REFUSED_HEADER.search(piece.text)
        if header is not None:
            raise _refusal(*piece.user_place, header[1], _TWIN)
        if piece.is_users:
            _refuse_in(piece)


def _refuse_in(piece: _Piece) -> None:
    found = _ANY_FEATURE.search(_LITERAL.sub(lambda m: '""' + "\n" * m[0].count("\n"), piece.text))
    if found is None:
        return
    _, what, remedy = _FEATURES[int((found.lastgroup or "f0")[1:])]
    line = piece.line + found.string.count("\n", 0, found.start())
    raise _refusal(piece.file, line, f"{what} (`{found[0].strip()}`)", remedy)


def _refusal(file: str, line: int, what: str, remedy: str) -> BuildError:
    return BuildError(f"{file}:{line}: the host device does not run {what}: {remedy}")


def _pieces(text: str, source: Path) -> Iterator[_Piece]:
    ours = (str(INCLUDE_DIR), *map(str, cuda_include_dirs()), "<")
    file, line, is_users, start = str(source), 1, True, 0
    place = (str(source), 1)
    for marker in _LINE_MARKER.finditer(text):
        piece = _Piece(text[start : marker.start()], file, line, is_users, place)
        yield piece
        flags = marker[3].split()
        if _ENTERED in flags and is_users:  # the #include itself, which the preprocessor removed
            place = (file, line + piece.text.count("\n"))
        file, line, start = marker[2], int(marker[1]), marker.end()
        is_users = _SYSTEM_HEADER not in flags and not file.startswith(ours)
    yield _Piece(text[start:], file, line, is_users, place)
