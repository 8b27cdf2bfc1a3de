"""The examples for programs of others under `python -m lowgraph check`, whole and with a bug."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lowgraph.cli import compile as compile_command
from lowgraph.hostdev import build
from tests.foreign import programs
from tests.support.process import ROOT

pytestmark = pytest.mark.host

CORE_EXAMPLE = ROOT / "examples" / "cuda_core_graph.py"
ACCUMULATES = "if (i < n) y[i] += a * x[i];"
BUGS = {
    "global-race": "if (i < n) y[i / 2] += a * x[i];",
    "out-of-bounds": "if (i <= n) y[i] += a * x[i];",
}


@dataclass(frozen=True)
class Checked:
    """How a run ended, what it printed, and its JSON."""

    code: int
    out: str
    told: dict[str, Any]

    def places(self) -> set[tuple[str, str, int]]:
        """Kind, file's name and line of each finding."""
        return {(one["kind"], Path(one["file"]).name, one["line"]) for one in self.told["findings"]}


def image_of(folder: Path, bug: str | None, checks: bool = True) -> Path:
    """An image of the example's kernels, with a bug in add_scaled."""
    text = programs.EXAMPLE.with_suffix(".cu").read_text()
    assert text.count(ACCUMULATES) == 1
    source = folder / "capture.cu"
    source.write_text(text if bug is None else text.replace(ACCUMULATES, BUGS[bug]))
    image = folder / "capture.image"
    image.write_bytes(compile_command.compile_image(source, "host", {}, checks))
    return image


def line_of_the_bug(folder: Path, bug: str) -> int:
    lines = (folder / "capture.cu").read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if BUGS[bug] in line)


def check(folder: Path, *words: str, **variables: str) -> Checked:
    """Run `check` with these words, its JSON in `folder`."""
    path = folder / "told.json"
    done = subprocess.run(
        [sys.executable, "-m", "lowgraph", "check", "--json", str(path), *words],
        env={**os.environ, "PYTHONPATH": str(ROOT), **variables},
        cwd=folder, capture_output=True, text=True, check=False, timeout=100,
    )  # fmt: skip
    assert path.exists(), done.stderr
    return Checked(done.returncode, done.stdout, json.loads(path.read_text()))


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The C example, linked as its page says."""
    command = [programs.c_compiler(), *programs.STRICT, str(programs.EXAMPLE), *programs.flags()]
    path = tmp_path_factory.mktemp("c") / "capture"
    subprocess.run([*command, "-o", str(path)], check=True, timeout=100)
    return path


def ways(name: str, program: Path | None) -> tuple[str, ...]:
    """The words of `check` behind which an image's name comes."""
    if name == "c":
        return ("--exec", str(program))
    pytest.importorskip("cuda.core", reason="cuda.core is not installed")
    own = (str(CORE_EXAMPLE),)
    return ("--exec", sys.executable, *own) if name == "cuda.core, exec" else own


WAYS = ["c", "cuda.core", "cuda.core, exec"]


@pytest.mark.parametrize("way", WAYS)
def test_the_example_is_clean_and_was_looked_at(tmp_path: Path, program: Path, way: str) -> None:
    """Seven replays of one or two kernels."""
    done = check(tmp_path, *ways(way, program), str(image_of(tmp_path, None)))
    assert done.code == 0, done.out
    assert done.out.splitlines()[-2] == "ok"
    assert (done.told["findings"], done.told["unchecked"]) == ([], [])
    assert f"0 findings in {done.told['launches']} launches checked" in done.out
    assert done.told["launches"] >= 7


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("bug", BUGS)
def test_a_bug_in_its_kernel_is_found(tmp_path: Path, program: Path, way: str, bug: str) -> None:
    image = image_of(tmp_path, bug)
    done = check(tmp_path, *ways(way, program), str(image))
    assert (bug, "capture.cu", line_of_the_bug(tmp_path, bug)) in done.places(), done.out
    assert done.code == 1


@pytest.mark.parametrize("way", WAYS)
def test_without_checks_in_its_image_that_is_told(tmp_path: Path, program: Path, way: str) -> None:
    image = image_of(tmp_path, "global-race", checks=False)
    done = check(tmp_path, *ways(way, program), str(image))
    assert (done.code, done.told["findings"], done.told["launches"]) == (1, [], 0)
    assert {one["kernel"] for one in done.told["unchecked"]} == {"add_scaled", "square"}
    assert {one["image"] for one in done.told["unchecked"]} == {str(image)}
    assert "python -m lowgraph compile --check capture.cu -o capture.image" in done.out


def test_a_script_gets_the_checks_whatever_the_search_path_says(tmp_path: Path) -> None:
    """The way that the page gives for a run without checks, kept by who checks for once."""
    image = image_of(tmp_path, "global-race")
    folder = str(build.link_folder())
    done = check(tmp_path, *ways("cuda.core", None), str(image), LD_LIBRARY_PATH=folder)
    assert "global-race" in {kind for kind, _, _ in done.places()} and done.code == 1


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("LOWGRAPH_HOST_CHECK", "yes", "LOWGRAPH_HOST_CHECK must be 1 (check kernels) or 0"),
        ("LOWGRAPH_HOST_KERNEL_SECONDS", "nan", "must be seconds, or 0 for no limit"),
        ("LOWGRAPH_HOST_KERNEL_SECONDS", "-1", "must be seconds, or 0 for no limit"),
        ("LOWGRAPH_HOST_KERNEL_SECONDS", "1s", "must be seconds, or 0 for no limit"),
    ],
)
def test_a_c_program_is_told_of_a_wrong_switch(
    tmp_path: Path, program: Path, name: str, value: str, told: str
) -> None:
    """cuInit refuses it, as it does a wrong seed."""
    image = image_of(tmp_path, None, checks=False)
    done = subprocess.run(
        [str(program), str(image)], env={**os.environ, name: value},
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 1
    assert "cuInit(0) gives 1 CUDA_ERROR_INVALID_VALUE" in done.stderr
    assert told in done.stderr
