"""Images and checks: what ran without being looked at is told, and how to have it looked at."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from lowgraph.cli import compile as compile_command
from lowgraph.driver import images
from tests.hostdev.check_kit import Run, run_check, run_python
from tests.support.process import ROOT

pytestmark = pytest.mark.host

KERNELS = """\
extern "C" __global__ void fill(float* y, int n) { for (int i = 0; i < n; ++i) y[i] = 1; }
extern "C" __global__ void race(float* y, int n) { y[0] += 1; }
extern "C" __global__ void twice(float* y, const float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2 * x[i];
}
"""
# Loads an image by the call that is named, runs `race` twice, and once more as a graph's node.
LAUNCHES = """\
import ctypes, sys
import numpy as np
from cuda.bindings import driver as cu
def ok(answer):
    assert int(answer[0]) == 0, answer
    return answer[1] if len(answer) == 2 else answer[1:]
ok(cu.cuInit(0)); ok(cu.cuCtxSetCurrent(ok(cu.cuDevicePrimaryCtxRetain(0))))
how, image = sys.argv[1:]
if how == "data":
    module = ok(cu.cuModuleLoadData(open(image, "rb").read()))
elif how == "library":
    name = image.encode()
    module = ok(cu.cuLibraryGetModule(ok(cu.cuLibraryLoadFromFile(name, [], [], 0, [], [], 0))))
else:
    module = ok(cu.cuModuleLoad(image.encode()))
race = ok(cu.cuModuleGetFunction(module, b"race"))
y, s = ok(cu.cuMemAlloc(64)), ok(cu.cuStreamCreate(1))
ok(cu.cuMemsetD8(y, 0, 64)); ok(cu.cuCtxSynchronize())
def launch():
    ok(cu.cuLaunchKernel(race, 1, 1, 1, 33, 1, 1, 0, s, ((y, 1), (None, ctypes.c_int)), 0))
launch(); launch()
ok(cu.cuStreamBeginCapture(s, cu.CUstreamCaptureMode(1)))
launch()
graph = ok(cu.cuGraphInstantiate(ok(cu.cuStreamEndCapture(s)), 0))
ok(cu.cuGraphLaunch(graph, s)); ok(cu.cuStreamSynchronize(s))
print("ran")
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Kernels, an image of them with and one without checks, and a script that launches them."""
    made = tmp_path_factory.mktemp("images")
    source = made / "k.cu"
    source.write_text(KERNELS)
    for name, checks in (("plain.image", False), ("checked.image", True)):
        image = compile_command.compile_image(source, "host", {}, checks)
        (made / name).write_bytes(image)
    (made / "launches.py").write_text(LAUNCHES)
    return made


def report(folder: Path) -> dict[str, object]:
    return dict(json.loads((folder / "findings.json").read_text()))


@pytest.mark.parametrize("how", ["data", "file", "library"])
def test_launches_of_an_image_without_checks_are_told_apart(
    folder: Path, tmp_path: Path, how: str
) -> None:
    plain = str(folder / "plain.image")
    done = run_check(tmp_path, folder / "launches.py", how, plain)
    image = None if how == "data" else plain
    kernel = {"kernel": "race", "image": image, "source": str(folder / "k.cu"), "launches": 3}
    assert report(tmp_path) == {
        "findings": [], "unchecked": [kernel], "launches": 0, "silent_processes": []
    }  # fmt: skip
    assert done.code == 1 and "ran" in done.out, done.err
    title = image or "an image that was given as bytes"
    said = done.out.splitlines()[1:]
    assert said == [
        f"race: 3 launches NOT checked: {title} has no checks; compile it with them:",
        f"    python -m lowgraph compile --check {folder / 'k.cu'} -o {image or 'IMAGE'}",
        "0 findings in 0 launches checked; 3 launches NOT checked",
    ]


def test_the_command_that_is_told_makes_them_seen(folder: Path, tmp_path: Path) -> None:
    """Run as it stands: the same script finds the race then."""
    image = tmp_path / "k.image"
    image.write_bytes((folder / "plain.image").read_bytes())
    told = run_check(tmp_path, folder / "launches.py", "file", str(image)).out
    command = next(line for line in told.splitlines() if line.startswith("    python"))
    words = shlex.split(command)[1:]
    compiled = run_python(*words)
    assert compiled.returncode == 0 and ", with checks" in compiled.stdout, compiled.stderr
    again = run_check(tmp_path, folder / "launches.py", "file", str(image))
    assert {found["kind"] for found in again.findings} == {"global-race"}
    assert again.code == 1 and "3 launches checked" in again.out and "NOT" not in again.out


@pytest.mark.parametrize("how", ["data", "file", "library"])
def test_an_image_with_checks_is_seen_however_it_is_loaded(
    folder: Path, tmp_path: Path, how: str
) -> None:
    done = run_check(tmp_path, folder / "launches.py", how, str(folder / "checked.image"))
    assert {(found["kind"], found["line"]) for found in done.findings} == {("global-race", 2)}
    assert (report(tmp_path)["unchecked"], report(tmp_path)["launches"]) == ([], 3)


LOADS = """\
import sys
from pathlib import Path
from lowgraph import Library, open_device
Library(open_device("host")).load(Path(sys.argv[1]))
"""


def test_the_library_refuses_an_image_without_checks(folder: Path, tmp_path: Path) -> None:
    script = tmp_path / "loads.py"
    script.write_text(LOADS)
    done = run_check(tmp_path, script, str(folder / "plain.image"))
    assert done.code == 1
    last = done.err.splitlines()[-1]
    assert last.startswith("lowgraph.errors.base.KernelSourceError: ")
    assert f"{folder / 'plain.image'} was compiled without checks" in last
    assert f"python -m lowgraph compile --check {folder / 'k.cu'} -o F" in last
    assert run_check(tmp_path, script, str(folder / "checked.image")).code == 0


def test_an_image_with_checks_is_refused_where_nothing_checks(folder: Path, tmp_path: Path) -> None:
    """By the library in Python, with why; by the driver's calls with 209 and a line on stderr."""
    script = tmp_path / "loads.py"
    script.write_text(LOADS)
    done = run_python(str(script), str(folder / "checked.image"))
    assert "was compiled with checks, and this run has none" in done.stderr
    assert f"without checks: python -m lowgraph compile {folder / 'k.cu'} -o F" in done.stderr
    code = f"from lowgraph import hostdev; hostdev.load()\n{LAUNCHES}"
    done = run_python("-c", code, "file", str(folder / "checked.image"))
    assert "CUDA_ERROR_NO_BINARY_FOR_GPU" in done.stderr
    told = f"lowgraph host device: {folder / 'checked.image'} was compiled with checks"
    assert told in done.stderr and "run the program by `python -m lowgraph check`" in done.stderr


LOADED = LAUNCHES[: LAUNCHES.index("race =")]
FILLS = """\
fill = ok(cu.cuModuleGetFunction(module, b"fill"))
ok(cu.cuLaunchKernel(fill, 1, 1, 1, 1, 1, 1, 0, 0, ((x, 31), (None, ctypes.c_int)), 0))
"""
DOUBLES = """\
checked = ok(cu.cuModuleLoad(image.replace("plain", "checked").encode()))
twice = ok(cu.cuModuleGetFunction(checked, b"twice"))
given = ((y, x, 31), (None, None, ctypes.c_int))
ok(cu.cuLaunchKernel(twice, 1, 1, 1, 31, 1, 1, 0, 0, given, 0))
out = np.empty(31, np.float32)
ok(cu.cuMemcpyDtoH(out.ctypes.data, y, 124))
print(out.sum())
"""


def test_what_an_unchecked_kernel_wrote_counts_as_written(folder: Path, tmp_path: Path) -> None:
    """Nothing is known of it; told as uninitialised, each value that it made would be a finding."""
    script = tmp_path / "mixed.py"
    memory = "x, y = ok(cu.cuMemAlloc(124)), ok(cu.cuMemAlloc(124))\n"
    script.write_text(LOADED + memory + FILLS + DOUBLES)
    done = run_check(tmp_path, script, "file", str(folder / "plain.image"))
    assert done.findings == [] and "62.0" in done.out, done.out + done.err
    assert "1 launch checked; 1 launch NOT checked" in done.out
    script.write_text(LOADED + memory + DOUBLES)
    done = run_check(tmp_path, script, "file", str(folder / "plain.image"))
    assert [found["kind"] for found in done.findings] == ["uninitialised-read"]


def test_processes_that_a_script_starts_are_seen(folder: Path, tmp_path: Path) -> None:
    script = tmp_path / "starts.py"
    script.write_text(
        "import subprocess, sys\n"
        "from lowgraph import open_device\n"
        "code = 'from lowgraph import hostdev; hostdev.load();' + "
        "'exec(open(sys.argv.pop(1)).read())'\n"
        "command = [sys.executable, '-c', 'import sys;' + code, *sys.argv[1:]]\n"
        "print(subprocess.run(command, check=True, capture_output=True, text=True).stdout)\n"
    )
    words = (str(folder / "launches.py"), "file", str(folder / "checked.image"))
    done = run_check(tmp_path, script, *words)
    assert [found["kind"] for found in done.findings] == ["global-race"], done.err
    assert done.code == 1 and "3 launches checked" in done.out


def test_a_process_that_ends_without_a_word_is_named(folder: Path, tmp_path: Path) -> None:
    script = tmp_path / "killed.py"
    script.write_text("import os\n" + LAUNCHES + "print(os.getpid(), flush=True)\nos._exit(0)\n")
    words = (sys.executable, str(script), "file", str(folder / "checked.image"))
    done = run_exec(tmp_path, *words)
    number = int(done.out.splitlines()[1])
    assert f"process {number} ended without a word" in done.out
    assert done.code == 1 and report(tmp_path)["silent_processes"] == [number]


def run_exec(folder: Path, *words: str, **variables: str) -> Run:
    """Run a program under `check --exec` with its findings as JSON in `folder`."""
    path = folder / "findings.json"
    command = ("-m", "lowgraph", "check", "--exec", "--json", str(path), *words)
    done = run_python(*command, **variables)
    findings = json.loads(path.read_text())["findings"] if path.exists() else []
    return Run(done.returncode, done.stdout, done.stderr, findings)


def test_a_program_that_opens_no_device_is_no_success(tmp_path: Path) -> None:
    done = run_exec(tmp_path, "true")
    assert done.code == 1
    assert done.out.startswith("nothing was checked: no process opened the host device; ")
    assert "libcuda.so.1 by the dynamic linker" in done.out


def test_a_programs_own_exit_code_stands(folder: Path, tmp_path: Path) -> None:
    """Of a clean run, and of one that a signal ended, as a shell tells it."""
    clean = tmp_path / "clean.py"
    clean.write_text(LAUNCHES[: LAUNCHES.index("how, image")] + "sys.exit(5)\n")
    assert run_exec(tmp_path, sys.executable, str(clean)).code == 5
    assert (
        "0 findings: no kernel was launched" in run_exec(tmp_path, sys.executable, str(clean)).out
    )
    clean.write_text(clean.read_text().replace("sys.exit(5)", "import os; os.kill(os.getpid(), 9)"))
    assert run_exec(tmp_path, sys.executable, str(clean)).code == 1, "and it told nothing"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "name the program to check: check --exec PROGRAM [ARGS ...]"),
        (("no-such-program",), "no-such-program: no such program; give its path"),
        (("true", "--json"), "--json needs a file"),
    ],
)
def test_bad_programs_are_refused(words: tuple[str, ...], message: str) -> None:
    done = run_python("-m", "lowgraph", "check", "--exec", *words)
    assert done.returncode == 2
    assert ("error: ") and message in done.stderr


def test_what_is_no_script_is_told_of_exec() -> None:
    done = run_python("-m", "lowgraph", "check", sys.executable)
    assert done.returncode == 2
    assert f"or any program: check --exec {sys.executable}" in done.stderr


def test_checks_are_for_the_host(folder: Path, tmp_path: Path) -> None:
    given = (str(folder / "k.cu"), "-o", str(tmp_path / "k"), "--arch", "sm_90", "--check")
    done = run_python("-m", "lowgraph", "compile", *given)
    assert done.returncode == 2
    assert "--check: kernels for sm_90 are not checked; leave out --arch" in done.stderr


@pytest.mark.parametrize("checks", [True, False])
def test_an_image_tells_its_source_and_whether_it_has_checks(tmp_path: Path, checks: bool) -> None:
    """Of any name: it stands in the image's C++ text."""
    source = tmp_path / 'a "b" \\ \u00fc 1%d.cu'
    source.write_text(KERNELS)
    facts = images.describe(compile_command.compile_image(source, "host", {}, checks))
    assert (facts.kind, facts.checks, facts.source) == ("host", checks, source)


def test_the_switch_alone_tells_on_stderr(folder: Path) -> None:
    """A program that nobody runs under `check`: that something was found, and how to read it."""
    given = {**os.environ, "PYTHONPATH": str(ROOT), "LOWGRAPH_HOST_CHECK": "1"}
    code = f"from lowgraph import hostdev; hostdev.load()\n{LAUNCHES}"
    for name, told in (
        ("checked.image", "kernels did something wrong in 3 checked launches; "),
        ("plain.image", "nothing found in 0 checked launches, others were not checked; "),
    ):
        done = subprocess.run(
            [sys.executable, "-c", code, "file", str(folder / name)],
            env=given, capture_output=True, text=True, check=True,
        )  # fmt: skip
        # A line before it says so where another process builds the library meanwhile.
        assert f"lowgraph host device: {told}`python -m lowgraph check --exec" in done.stderr
