"""Where a kernel's source calls `grid_wait()` of common/grid_wait.cuh: first, or not at all.

Anywhere else it would be of no use, or worse: what is read ahead of it may be read before the
kernel ahead has written it, and a block that returns ahead of it has waited for nothing, so that
the grid may end, and the next one begin, before the one ahead of both has ended.
"""

from __future__ import annotations

import re

from lowgraph.errors import KernelSourceError

__all__ = ["begins"]

_BODY = re.compile(r"[^;{]*\{")
_FIRST = re.compile(r"\s*grid_wait\s*\(\s*\)\s*;")
_CALL = re.compile(r"\bgrid_wait\s*\(")
_DIRECTIVE = re.compile(r"^[ \t]*#", re.MULTILINE)
_LITERAL = re.compile(r""""(?:\\.|[^"\\\n])*"|'(?:\\[^'\n]+|\\'|[^'\\\n])'""")


def begins(written: str, text: str, end: int, place: str) -> bool:
    """Return whether the first statement of a kernel's body is `grid_wait();`.

    written: the source. text: the same, comments and preprocessor lines as spaces. end: where the
    kernel's parameter list ends. place: the kernel, for messages. Raises KernelSourceError where
    the call stands elsewhere in the body, or depends on the preprocessor.
    """
    body = _BODY.match(text, end)
    if body is None:
        return False  # declared here, defined elsewhere
    first = _FIRST.match(text, body.end())
    if first is not None and _DIRECTIVE.search(written, body.end(), first.end()):
        raise _misplaced(place, "stands behind a preprocessor line")
    if _CALL.search(_rest(text, (first or body).end())):
        raise _misplaced(place, "does not stand first" if first is None else "stands twice")
    return first is not None


def _rest(text: str, begin: int) -> str:
    """The rest of a body, without its strings."""
    rest, depth = _LITERAL.sub("", text[begin:]), 1
    for position, letter in enumerate(rest):
        depth += {"{": 1, "}": -1}.get(letter, 0)
        if depth == 0:
            return rest[:position]
    return rest


def _misplaced(place: str, how: str) -> KernelSourceError:
    return KernelSourceError(
        f"{place}: grid_wait() {how}: make `grid_wait();` the kernel's first statement, ahead of "
        "all that it reads or writes and of every return, and outside of #if"
    )
