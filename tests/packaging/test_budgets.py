"""Size budgets: a file that has outgrown them has outgrown its name."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.packaging.tree import CODE_SUFFIXES, PYTHON_FOLDERS, ROOT, files

FILE_LINES = 400
KERNEL_FILE_LINES = 300
FUNCTION_LINES = 60
COLUMNS = 100


def _code_files() -> list[Path]:
    return files(*PYTHON_FOLDERS, "kernels_cu", suffixes=CODE_SUFFIXES)


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_no_file_is_longer_than_its_budget() -> None:
    budgets = dict.fromkeys(_code_files(), FILE_LINES)
    budgets.update({path: KERNEL_FILE_LINES for path in budgets if path.suffix in {".cu", ".cuh"}})
    long = [f"{_name(path)}: {len(_lines(path))}" for path in budgets
            if len(_lines(path)) > budgets[path]]  # fmt: skip
    assert not long, "\n".join(long)


def test_no_line_is_wider_than_100_columns() -> None:
    wide = [
        f"{_name(path)}:{number}"
        for path in files("lowgraph", "kernels_cu", suffixes={".py", ".cu", ".cuh"})
        for number, line in enumerate(_lines(path), 1)
        if len(line) > COLUMNS
    ]
    assert not wide, "\n".join(wide)


def test_no_function_is_longer_than_60_lines() -> None:
    long = []
    for path in files(*PYTHON_FOLDERS, suffixes={".py"}):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                continue
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > FUNCTION_LINES:
                long.append(f"{_name(path)}:{node.lineno} {node.name}: {length}")
    assert not long, "\n".join(long)
