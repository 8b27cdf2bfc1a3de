"""A module imports from lower layers or its own package only, and CuPy only in interop."""

from __future__ import annotations

import pytest

from tests.packaging.tree import PACKAGE, ROOT, Import, files, imports

# README draws the same picture. Within a layer the order is: left may not import right.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("errors", "integers", "specs", "precision", "counters", "stages", "early", "_version"),
    ("hostdev", "driver"),
    ("kernels", "memory"),
    ("capture", "ops", "blas", "interop"),
    ("models", "optim"),
    ("train", "debug", "bench", "cli"),
)
# A package may import these neighbours of its own layer, for the reason given.
NEIGHBOURS = {
    ("integers", "errors"): "what is no integer is a ConfigError",
    ("specs", "errors"): "a shape that cannot be is a ConfigError",
    ("stages", "errors"): "a name that cannot be is a ConfigError",
    ("driver", "hostdev"): "opening the host device loads its library before the first call",
    ("interop", "capture"): "memory of others is what pins read, and a graph is handed out",
    ("blas", "ops"): "what follows a layer's products where they cannot do it",
    ("cli", "train"): "a command runs the trainer",
    ("bench", "train"): "what is timed is the trainer's own step",
    ("cli", "bench"): "a command runs the benchmark",
    ("cli", "debug"): "a command shows a graph",
}
HIGHEST = len(LAYERS)


def _unit(target: str) -> str | None:
    """The package or top module of lowgraph that a dotted name belongs to."""
    parts = target.split(".")
    if parts[0] != "lowgraph" or len(parts) == 1:
        return None
    known = {name for layer in LAYERS for name in layer} | {"kernels_cu", "__main__"}
    return parts[1] if parts[1] in known else "__init__"


def _layer(unit: str) -> int:
    return next((n for n, layer in enumerate(LAYERS) if unit in layer), HIGHEST)


def _allowed(source: str, target: str) -> bool:
    if source == target or _layer(target) < _layer(source):
        return True
    return (source, target) in NEIGHBOURS


def _all_imports() -> list[Import]:
    return [found for path in files("lowgraph", suffixes={".py"}) for found in imports(path)]


def test_every_package_has_a_layer() -> None:
    known = {name for layer in LAYERS for name in layer}
    present = {
        path.stem if path.is_file() else path.name
        for path in PACKAGE.iterdir()
        if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    assert present - {"__init__", "__main__"} <= known


def test_imports_point_downwards() -> None:
    wrong = []
    for found in _all_imports():
        source, target = _unit(found.module), _unit(found.target)
        if source is None or target is None or _allowed(source, target):
            continue
        wrong.append(f"{found.module}:{found.line} ({source}) imports {found.target} ({target})")
    assert not wrong, "\n".join(wrong)


def test_the_walk_sees_an_upward_import() -> None:
    assert not _allowed("driver", "kernels")
    assert not _allowed("memory", "capture")
    assert _allowed("capture", "driver")


def test_only_interop_imports_cupy() -> None:
    users = {
        found.module for found in _all_imports() if found.target.split(".")[0].startswith("cupy")
    }
    assert users <= {"lowgraph.interop.cupy_library", "lowgraph.interop.cupy_block"}


@pytest.mark.parametrize("unit", [name for layer in LAYERS for name in layer if name[0] != "_"])
def test_readme_draws_each_package(unit: str) -> None:
    if not ((PACKAGE / unit).is_dir() or (PACKAGE / f"{unit}.py").exists()):
        pytest.skip(f"{unit} does not exist yet")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    picture = readme.partition("<!-- layers -->")[2].partition("<!-- /layers -->")[0]
    assert unit in picture
