"""The embedding examples with C and with kernels of others: they run, are short, and say why."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from lowgraph.cli.include import flags
from tests.foreign.programs import c_compiler
from tests.support.process import ROOT, words_of

FOLDER = ROOT / "examples" / "embedding"
OURS = ("1_raw_kernel.py", "4_c_library.py", "4_c_library.c", "5_c_program.c", "5_recorded.py")


def run(*command: str, spec: str, **more: str) -> list[str]:
    done = subprocess.run(
        [*command, spec], cwd=ROOT, capture_output=True, text=True, check=False, timeout=200,
        env={**os.environ, **more},
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return [*done.stdout.splitlines(), *words_of(done.stderr).splitlines()]


@pytest.mark.parametrize("name", OURS)
def test_each_file_is_shorter_than_60_lines(name: str) -> None:
    assert len((FOLDER / name).read_text().splitlines()) < 60


@pytest.mark.both
def test_raw_kernel(request: pytest.FixtureRequest) -> None:
    spec = request.config.getoption("--device")
    said = run(sys.executable, "-W", "error", str(FOLDER / "1_raw_kernel.py"), spec=spec)
    assert "  steps 10: 1 eager, 9 replayed" in said
    assert any("addresses outside the pool: 2" in line for line in said)


@pytest.mark.both
def test_c_library_in_the_window(request: pytest.FixtureRequest) -> None:
    c_compiler()  # skips without one
    spec = request.config.getoption("--device")
    said = run(sys.executable, "-W", "error", str(FOLDER / "4_c_library.py"), spec=spec)
    assert "  graph: 2 nodes, kernels among them: 2" in said
    assert "  kernels by stage: leaky_pair (C) 2" in said
    assert any(line.startswith("audit of 'leaky_pair': 4 pointers, 0 stale") for line in said)
    refused = [line for line in said if line.startswith("lowgraph: ")]
    assert len(refused) == 2, "each mistake is said once"
    assert "CaptureIncomplete" in refused[0] and "legacy stream" in refused[0]
    assert "4_c_library.py:" in refused[0]
    assert "SyncDuringCapture" in refused[1]
    assert "cuStreamSynchronize was called by leaky_waits in the capture window" in refused[1]
    assert "(cuStreamSynchronize(stream) at 4_c_library.c:" in refused[1]


@pytest.mark.both
def test_c_program_launches_the_graph(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    header = Path(sysconfig.get_path("include"), "Python.h")
    libraries = sysconfig.get_config_var("LIBDIR"), sysconfig.get_config_var("LDLIBRARY")
    if not header.is_file() or not str(libraries[1]).endswith(".so"):
        pytest.skip("this Python cannot be embedded: no Python.h, or no shared libpython")
    program = tmp_path / "program"
    name = str(libraries[1]).removeprefix("lib").removesuffix(".so")
    command = [
        c_compiler(), "-std=c99", "-Wall", "-Wextra", "-Werror", str(FOLDER / "5_c_program.c"),
        *flags(), f"-I{header.parent}", f"-L{libraries[0]}", f"-l{name}",
        f"-Wl,-rpath,{libraries[0]}", "-o", str(program),
    ]  # fmt: skip
    built = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
    assert built.returncode == 0, built.stderr
    paths = os.pathsep.join([str(FOLDER), str(ROOT)])
    spec = request.config.getoption("--device")
    said = run(str(program), sys.executable, spec=spec, PYTHONPATH=paths)
    assert said == ["9 launches from C: y[0] = 1.998046875"]
