"""Which indexed arrays are local ones: the check build is told by the assembly text.

Of an index outside its array the compiler's bounds check hands on the array's type and the place of
the expression, and neither its name nor its address. The accesses of an array that is in no other
thread's reach are not announced either, so nothing tells at run time that the array is the
thread's own, whose stack such a write would destroy. The text that the compiler read does: here
the expression's array is looked up in the function around it.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator

__all__ = ["LOCAL", "mark_local_arrays"]

LOCAL = 1 << 31
"""Added to the column of a bounds check of a local array (include/cuda_on_host/check_hooks.h)."""

# What a bounds check hands on: file, line, column, the array's type, the index's type.
_CHECK = re.compile(
    r"^\t\.quad\t(?P<file>\.L\w+)\n\t\.long\t(?P<line>\d+)\n\t\.long\t(?P<column>\d+)\n"
    r"\t\.quad\t(?P<type>\.Lubsan_type\d+)\n\t\.quad\t\.Lubsan_type\d+$",
    re.MULTILINE,
)
_TYPE = re.compile(
    r"^(?P<label>\.Lubsan_type\d+):\n(?P<kind>(?:\t\.(?:value|short|zero)\t.*\n)+)"
    r'\t\.string\t"(?P<text>.*)"$',
    re.MULTILINE,
)
_STRING = re.compile(r'^(\.L\w+):\n\t\.string\t"(.*)"$', re.MULTILINE)
_MARKER = re.compile(r'^# (\d+) "(.*?)"')

# A block within a function; any other one is the function's own, a class's or a namespace's.
_INNER = re.compile(r"\s*(?:$|(?:if|for|while|switch|do|else|try|catch)\b|case\b|default\b)")
_VALUES = re.compile(r"[=,(\[\]{]\s*$")  # of an initialiser, or a lambda's
_INITIALISER = re.compile(r"[=,(\]>]\s*$|\b(?!else\b|do\b|try\b)\w+\s*$")
_LAMBDA = re.compile(r"\[[^\[\]]*\]\s*(?:\([^()]*\)[^()]*)?$")
_NO_DECLARATION = re.compile(
    r"\s*(?:return|else|case|goto|delete|throw|new|do|if|while|for|switch|using|typedef)\b"
)
_NOT_LOCAL = re.compile(r"\b(?:thread_local|static|extern)\b")
_GROUP = re.compile(r"\[[^\[\]]*\]|\([^()]*\)|\{[^{}]*\}|<[^<>;]*>")
_TYPE_BEFORE = re.compile(r"(?:\w|::|\s|\*)*\w(?:\s|\*)*")  # "const float *"


def mark_local_arrays(assembly: str, source: str) -> str:
    """Mark the bounds checks of local arrays and give their types the arrays' names.

    source: the text that `assembly` was compiled from. A marked type reads "a 'float [4]'".
    """
    if _CHECK.search(assembly) is None:
        return assembly
    files = dict(_STRING.findall(assembly))
    types = {found["label"]: found for found in _TYPE.finditer(assembly)}
    text, made = _Source(source), dict[str, str]()

    def marked(check: re.Match[str]) -> str:
        file, line, column = files.get(check["file"], ""), int(check["line"]), int(check["column"])
        name = text.local_array(file, line, column)
        if name is None or check["type"] not in types:
            return check[0]
        of, label = types[check["type"]], f".Llowgraph_{name}_{check['type'][2:]}"
        made[label] = f'\t.align 2\n{label}:\n{of["kind"]}\t.string\t"{name} {of["text"]}"\n'
        told = check[0].replace(f".long\t{column}\n\t.quad", f".long\t{column + LOCAL}\n\t.quad")
        return told.replace(f".quad\t{check['type']}\n", f".quad\t{label}\n", 1)

    assembly = _CHECK.sub(marked, assembly)
    if not made:
        return assembly
    return f'{assembly}\t.section\t.rodata.lowgraph_local_arrays,"a"\n{"".join(made.values())}'


class _Source:
    """The preprocessed text, by the places that the compiler names."""

    def __init__(self, text: str) -> None:
        self._starts: dict[tuple[str, int], list[int]] = {}
        at, file, number = 0, "", 0
        for line in text.splitlines(keepends=True):
            if marker := _MARKER.match(line):
                file, number = marker[2], int(marker[1])
            else:
                self._starts.setdefault((file, number), []).append(at)
                number += 1
            at += len(line)
        # Strings, characters and comments hold braces that are none.
        blank = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'|^# .*$', re.MULTILINE)
        self._code = blank.sub(lambda match: " " * len(match[0]), text)
        self._braces = [match.start() for match in re.finditer(r"[{}]", self._code)]

    def local_array(self, file: str, line: int, column: int) -> str | None:
        """Return the local array's name if an index expression that ends there is of one."""
        for start in self._starts.get((file, line), ()):
            end = start + column - 1
            if self._code[end : end + 1] != "]":
                continue
            base = self._base(end)
            if base is not None and self._is_local(base, end):
                return base
        return None

    def _base(self, end: int) -> str | None:
        """The variable of `name[i].member[j]`, whose last bracket is at `end`; None for another."""
        at = end + 1
        while True:
            before = self._code[max(0, at - 400) : at].rstrip()
            at = max(0, at - 400) + len(before)
            if before.endswith("]"):
                at = self._opening(at - 1)
                continue
            word = re.search(r"\w+$", before)
            if word is None:
                return None
            reached = before[: word.start()].rstrip()
            if reached.endswith(("->", "::")):
                return None
            if not reached.endswith("."):
                return word[0]
            at -= len(before) - len(reached) + 1

    def _opening(self, at: int) -> int:
        depth = 0
        while at > 0:
            depth += {"]": 1, "[": -1}.get(self._code[at], 0)
            if depth == 0:
                break
            at -= 1
        return at

    def _is_local(self, name: str, at: int) -> bool:
        """Whether the nearest declaration in the function around is of a variable of its own."""
        for statement in self._visible(at):
            if (found := _declares(statement, name)) is not None:
                return found
        return False

    def _visible(self, at: int) -> Iterator[str]:
        """The statements before `at` that it can see in its function, the nearest first."""
        pieces, end, depth = list[str](), at, 0
        for brace in reversed(self._braces[: bisect_right(self._braces, at)]):
            if self._code[brace] == "}":
                if depth == 0:
                    pieces.append(self._code[brace + 1 : end])
                depth += 1
                continue
            head = re.split(r"[;{}]", self._code[max(0, brace - 2000) : brace])[-1]
            if depth > 0:
                depth, end = depth - 1, brace
                if depth == 0:  # what another block declares is not seen here
                    pieces.append(" {} " if _INITIALISER.search(head) else ";")
                continue
            pieces.append(self._code[brace + 1 : end])
            yield from reversed("".join(reversed(pieces)).split(";"))
            pieces, end = [], brace
            inside = _INNER.match(head) or _LAMBDA.search(head) or _VALUES.search(head)
            # Of `for (a; b; c) {` the head is what follows the last semicolon.
            if not inside and head.count(")") <= head.count("("):
                return


def _declares(statement: str, name: str) -> bool | None:
    """Whether the statement declares a local variable of that name; None: no variable.

    False: a reference, or what all threads share.
    """
    for found in re.finditer(rf"\b{name}\b", statement):
        before, behind = statement[: found.start()], statement[found.end() :].lstrip()
        if re.search(r"(?:[\w>]\s*|\(\s*)&&?\s*$", before) and behind[:1] in ("", "=", ")", "{"):
            return False
        if _NO_DECLARATION.match(before) or (behind and behind[0] not in "[={(,"):
            continue
        while (shorter := _GROUP.sub(" ", before)) != before:
            before = shorter
        first, *others = before.split(",")
        if others and others[-1].strip(" *\n\t"):
            continue
        if _TYPE_BEFORE.fullmatch(first.split("=")[0] if others else first):
            return not _NOT_LOCAL.search(before)
    return None
