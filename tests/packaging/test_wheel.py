"""The wheel and the metadata: what a user gets who has no checkout."""

from __future__ import annotations

import configparser
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.packaging.tree import ROOT, files

FIND = """
from pathlib import Path
import lowgraph.kernels.source as source, lowgraph.hostdev as hostdev
print(Path(source.kernels_folder()).resolve())
print(Path(hostdev.__file__).resolve().parent / "src")
"""


def _metadata() -> configparser.ConfigParser:
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg", encoding="utf-8")
    return parser


def _lines(text: str) -> list[str]:
    lines = [line.strip() for line in text.splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


def test_setup_cfg_lists_every_package() -> None:
    listed = set(_lines(_metadata()["options"]["packages"]))
    inside = {path.parent.relative_to(ROOT) for path in files("lowgraph", suffixes={".py"})}
    kernels = {
        Path("lowgraph") / path.parent.relative_to(ROOT)
        for path in files("kernels_cu", suffixes={".py", ".cu", ".cuh"})
    }
    assert listed == {".".join(folder.parts) for folder in inside | kernels}


def test_every_dependency_has_its_reason() -> None:
    text = (ROOT / "setup.cfg").read_text(encoding="utf-8").splitlines()
    wanted = [*_lines(_metadata()["options"]["install_requires"])]
    for extra in _metadata()["options.extras_require"].values():
        wanted += _lines(extra)
    bare = []
    for number, line in enumerate(text):
        if line.strip() in wanted and line.startswith("    "):
            before = text[number - 1].strip()
            if not (before.startswith("#") or before in wanted):
                bare.append(line.strip())
    assert not bare


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel built from a copy of the checkout, offline."""
    copy = tmp_path_factory.mktemp("checkout")
    ignore = shutil.ignore_patterns(".*", "build", "*.egg-info", "__pycache__")
    for name in ("lowgraph", "kernels_cu"):
        shutil.copytree(ROOT / name, copy / name, ignore=ignore)
    for name in ("setup.cfg", "pyproject.toml", "MANIFEST.in", "README.md", "CHANGELOG.md",
                 "LICENSE"):  # fmt: skip
        shutil.copy(ROOT / name, copy)
    out = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation",
               "--no-index", "-q", "-w", str(out), str(copy)]  # fmt: skip
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (built,) = out.glob("lowgraph-*.whl")
    return built


@pytest.mark.slow
def test_wheel_holds_kernels_and_host_device_sources(wheel: Path) -> None:
    held = set(zipfile.ZipFile(wheel).namelist())
    ours = files("lowgraph", suffixes={".cpp", ".h", ".map", ".py", ".css", ".html", ".js"})
    wanted = {path.relative_to(ROOT).as_posix() for path in ours}
    for path in files("kernels_cu", suffixes={".cu", ".cuh", ".py"}):
        wanted.add(f"lowgraph/{path.relative_to(ROOT).as_posix()}")
    wanted.add("lowgraph/py.typed")
    assert wanted <= held, wanted - held
    assert not [name for name in held if name.startswith(("tests/", "examples/", "kernels_cu/"))]


@pytest.mark.slow
def test_installed_wheel_finds_its_own_files(wheel: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    install = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-index", "-q",
               "--target", str(site), str(wheel)]  # fmt: skip
    subprocess.run(install, check=True, capture_output=True)
    env = {**os.environ, "PYTHONPATH": str(site)}
    done = subprocess.run([sys.executable, "-c", FIND], env=env, cwd=tmp_path, check=True,
                          capture_output=True, text=True)  # fmt: skip
    kernels, sources = done.stdout.split()
    assert Path(kernels) == site.resolve() / "lowgraph" / "kernels_cu"
    assert any(Path(kernels).glob("*.cu"))
    assert any(Path(sources).glob("*.cpp"))
