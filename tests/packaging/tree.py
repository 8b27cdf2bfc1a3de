"""The checkout as the packaging tests see it: its files, and what each module imports."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "lowgraph"
PYTHON_FOLDERS = ("lowgraph", "tests", "examples", "tools", "benchmarks")
CODE_SUFFIXES = {".py", ".cu", ".cuh", ".cpp", ".h", ".sh"}


@dataclass(frozen=True)
class Import:
    """One name imported by a module: where it stands, and what it names ("lowgraph.specs")."""

    module: str
    line: int
    target: str


def files(*folders: str, suffixes: set[str]) -> list[Path]:
    """Files with one of the suffixes under the folders of the checkout, sorted."""
    found: list[Path] = []
    for folder in folders:
        top = ROOT / folder
        found += [path for path in top.rglob("*") if path.suffix in suffixes and path.is_file()]
    return sorted(path for path in found if "__pycache__" not in path.parts)


def module_name(path: Path) -> str:
    """The dotted name of a module under lowgraph/."""
    parts = list(path.relative_to(ROOT).with_suffix("").parts)
    if parts[-1] == "__init__":
        parts.pop()
    return ".".join(parts)


def imports(path: Path, *, for_types: bool = False) -> Iterator[Import]:
    """Each import of a file, at any depth; those under `if TYPE_CHECKING:` only when asked for."""
    tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    skipped = set() if for_types else _typing_only(tree)
    name = module_name(path)
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(tree):
        if node in skipped:
            continue
        for target in _targets(node, package):
            yield Import(name, node.lineno, target)  # type: ignore[attr-defined]


def _typing_only(tree: ast.Module) -> set[ast.AST]:
    """Nodes that only a type checker sees: they make no dependency when the module runs."""
    skipped: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            for statement in node.body:
                skipped.update(ast.walk(statement))
    return skipped


def _targets(node: ast.AST, package: str) -> list[str]:
    """Full dotted names that an import statement may bind."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        base = node.module or ""
        if node.level:
            parts = package.split(".")
            parts = parts[: len(parts) - node.level + 1]
            base = ".".join([*parts, base] if base else parts)
        return [f"{base}.{alias.name}" for alias in node.names]
    return []
