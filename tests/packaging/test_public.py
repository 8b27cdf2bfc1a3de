"""What is public: listed in one place, typed, light, and without the trainer or CuPy."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib import import_module, util
from pathlib import Path
from types import ModuleType

import pytest

from tests.packaging.tree import PACKAGE, ROOT

IMPORT_SECONDS = 0.3
# CPU seconds, as other processes of the machine are no matter; NumPy and the bindings are what the
# program has for itself, and are imported before.
IMPORT = """
import time
import numpy
from cuda.bindings import driver
start = time.process_time()
from lowgraph import GraphStep, Library, PersistentPool, Slice, StepReport, open_device, stage
from lowgraph import interop
from lowgraph.capture import CopyIn, GraphPart, Input
print(time.process_time() - start)
"""
RAW_USE = """
import sys
for name in ("cupy", "torch", "cuda.core", "safetensors", "matplotlib"):
    sys.modules[name] = None  # an import of it fails
import numpy as np
from pathlib import Path
from lowgraph import GraphStep, Library, PersistentPool, debug, interop, open_device
from lowgraph.driver import stream as streams
from lowgraph.memory import download, fill_zero
device = open_device("host")
library, pool, stream = Library(device), PersistentPool(device), streams.create()
kernel = library.kernel(Path("examples/own_kernel.cu"), "leaky_sum")
x, y = pool.take("x", 256), pool.take("y", 256)
fill_zero(x, stream), fill_zero(y, stream)
with GraphStep(lambda s: kernel(s, 1, 256, y, x, 0.5, 256), device=device, pool=pool,
               library=library, stream=stream) as step:
    for _ in range(3):
        step()
    assert step.report().replays == 2 and debug.read(step).nodes and interop.raw_graph(step).graph
assert not download(y, stream).any()
above = ("train", "models", "optim", "ops", "bench", "cli", "blas")
print(*sorted(name for name in above if f"lowgraph.{name}" in sys.modules))
"""


def _tool() -> ModuleType:
    path = ROOT / "tools" / "public_names.py"
    spec = util.spec_from_file_location("public_names", path)
    assert spec is not None and spec.loader is not None
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TOOL = _tool()
PAGE = (ROOT / "docs" / "public.md").read_text(encoding="utf-8")


def _listed() -> dict[str, list[str]]:
    rows = re.findall(r"^\| `(lowgraph[\w.]*)` \| (.*) \|$", PAGE, re.MULTILINE)
    return {module: re.findall(r"`(\w+)`", names) for module, names in rows}


@pytest.mark.parametrize("module", TOOL.MODULES)
def test_the_page_lists_what_the_module_has(module: str) -> None:
    """If it fails, see the rule on the page, then `python tools/public_names.py --write`."""
    assert _listed()[module] == TOOL.names_of(import_module(module))


def test_the_page_lists_no_other_module() -> None:
    assert sorted(_listed()) == sorted(TOOL.MODULES)


def test_every_package_is_public_or_said_not_to_be() -> None:
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    stable = {name.split(".")[1] for name in TOOL.MODULES if "." in name}
    spoken_of = set(re.findall(r"`(?:lowgraph\.)?(\w+)`", PAGE.partition("The rule")[0]))
    assert packages - stable <= spoken_of, packages - stable - spoken_of


@pytest.mark.parametrize("module", TOOL.MODULES)
def test_every_public_name_has_a_docstring(module: str) -> None:
    home = import_module(module)
    bare = [name for name in _listed()[module] if callable(getattr(home, name))
            and not (getattr(home, name).__doc__ or "").strip()]  # fmt: skip
    assert not bare


def test_the_tool_writes_the_page_that_is_there(tmp_path: Path, monkeypatch: object) -> None:
    copy = tmp_path / "public.md"
    copy.write_text(re.sub(r"\| `lowgraph\.errors`.*\n", "", PAGE), encoding="utf-8")
    before, TOOL.PAGE = TOOL.PAGE, copy
    try:
        assert TOOL.main(["--write"]) == 0
    finally:
        TOOL.PAGE = before
    assert copy.read_text(encoding="utf-8") == PAGE
    assert [path.name for path in tmp_path.iterdir()] == ["public.md"]


def _python(code: str, **more: str) -> str:
    env = {**os.environ, "PYTHONPATH": str(ROOT), **more}
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, cwd=ROOT, env=env, capture_output=True, text=True, check=False, timeout=100
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_embedding_api_is_imported_in_no_time(tmp_path: Path) -> None:
    """With compiled modules, as pip leaves them, also where nothing may be written beside them."""
    compiled = {"PYTHONPYCACHEPREFIX": str(tmp_path), "PYTHONDONTWRITEBYTECODE": ""}
    _python(IMPORT, **compiled)
    best = min(float(_python(IMPORT, **compiled)) for _ in range(5))
    assert best < IMPORT_SECONDS


@pytest.mark.host
def test_raw_use_needs_neither_the_trainer_nor_another_library() -> None:
    assert _python(RAW_USE).split() == []


def test_a_users_program_is_typed(tmp_path: Path) -> None:
    pytest.importorskip("mypy", reason="mypy is not installed")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--config-file=",
         "--ignore-missing-imports", f"--cache-dir={tmp_path}", "tests/packaging/user_snippet.py"],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=250,
        env={**os.environ, "MYPYPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
