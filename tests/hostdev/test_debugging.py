"""What helps to find a bug in a kernel: the line of a bad access, and stepping with gdb."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from itertools import chain
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest

from lowgraph.errors import ConfigError
from lowgraph.hostdev import kernel_build, settings
from tests.support.process import ROOT, output_of
from tools import sanitize

pytestmark = pytest.mark.host
SOURCE = Path(__file__).parent / "kernels" / "faults.cu"
DEBUG = "LOWGRAPH_HOST_DEBUG"
REQUIRED = "LOWGRAPH_GDB"


def debugged(
    command: list[str], cwd: Path | None = None, path: str | None = None
) -> subprocess.CompletedProcess[str]:
    """What gdb says in a debug build. Skips where there is none, or where it may not run a program;
    where LOWGRAPH_GDB=required, that is a failure."""
    variables = {DEBUG: "1", "DEBUGINFOD_URLS": ""} | ({"PYTHONPATH": path} if path else {})
    if shutil.which("gdb") is None:
        _lacking("gdb is not installed: stepping in kernels is not tested")
    done = subprocess.run(
        command, cwd=cwd, env={**os.environ, **variables}, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=180, check=False,
    )  # fmt: skip
    if "ptrace: Operation not permitted" in done.stderr:
        _lacking("this system does not let gdb run a program: stepping in kernels is not tested")
    return done


def _lacking(why: str) -> NoReturn:
    if os.environ.get(REQUIRED) == "required":
        pytest.fail(f"{REQUIRED}=required, and {why}")
    pytest.skip(why)


def line_of(text: str, after: str) -> int:
    """Number of the first line with `text` from the one with `after` on."""
    lines = SOURCE.read_text().splitlines()
    start = next(number for number, line in enumerate(lines) if after in line)
    return next(n for n, line in enumerate(lines[start:], start + 1) if text in line)


ACCESS = """
import numpy as np
from lowgraph.driver import open_device, stream
from lowgraph.errors import DriverError
from lowgraph.hostdev import control
from lowgraph.kernels import Library
from tests.support.rig import Rig

device = open_device("host")
rig = Rig(device, Library(device))
kernel = rig.library.kernel({source!r}, {kernel!r})
x = rig.put(np.zeros(1024, np.float32))
zeros = rig.put(np.zeros(64, np.int32))
bytes_of_x = rig.put(np.zeros(4096, np.int8))
kernel(rig.stream, 4, 64, {args})
try:
    rig.sync()
except DriverError:
    print(control.fault_text())
"""
ACCESSES = {
    "write_at": ("x, 1024, 5, 2", "x[at] = 1.0f;"),
    "write_after_barrier": ("x, 1024, 5", "x[at] = 1.0f;"),
    "read_vector": (
        "rig.put(np.zeros((4, 4), np.float32)), bytes_of_x, 4",
        "reinterpret_cast<const float4*>",
    ),
    "add_at": ("x, 1024, 5, 2", "atomicAdd("),
    "divide": ("zeros, zeros, zeros", "a[threadIdx.x] / b[threadIdx.x]"),
}


@pytest.mark.parametrize(("kernel", "debug"), [*((k, "0") for k in ACCESSES), ("write_at", "1")])
def test_a_fault_names_the_line_of_its_access(kernel: str, debug: str) -> None:
    args, access = ACCESSES[kernel]
    code = ACCESS.format(source=str(SOURCE), kernel=kernel, args=args)
    said = output_of(code, {DEBUG: debug}).strip()
    assert f"kernel '{kernel}', block (" in said
    assert said.endswith(f" (faults.cu:{line_of(access, f'void {kernel}(')})")


LAUNCH = """
import sys
import numpy as np
sys.path.insert(0, {root!r})
from pathlib import Path
from lowgraph.driver import open_device
from lowgraph.kernels import Library
from tests.support.rig import Rig

device = open_device("host")
rig = Rig(device, Library(device))
x = rig.empty(300)
rig.library.kernel(Path({source!r}), "fill")(rig.stream, 3, 128, x, 2.5, 300)
print(rig.get(x)[165])
"""


def test_gdb_stops_in_one_cuda_thread_at_a_line(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(LAUNCH.format(root=str(ROOT), source=str(SOURCE)))
    line = line_of("x[i] = value", "void fill(")
    thread = "lowgraph_thread.thread.x == 37 && lowgraph_thread.block.x == 1"
    commands = [
        "set breakpoint pending on",
        f"break faults.cu:{line} if {thread}",
        "run", "print i", "print lowgraph_thread.thread", "backtrace 1", "next", "print x[i]",
        "delete", "continue",
    ]  # fmt: skip
    arguments = [part for command in commands for part in ("-ex", command)]
    done = debugged(["gdb", "-batch", "-nx", *arguments, "--args", sys.executable, str(program)])
    said = done.stdout
    assert f"$1 = {128 + 37}\n" in said, said + done.stderr
    assert "$2 = {x = 37, y = 0, z = 0}" in said
    assert "#0  fill (x=0x" in said and f"faults.cu:{line}" in said
    assert f"$3 = {np.float32(2.5)}\n" in said
    assert said.count("hit Breakpoint 1") == 1
    assert "\n2.5\n" in said and "exited normally" in said


def test_the_page_stops_where_it_says() -> None:
    """The command of docs/host-device.md as it stands, and what its `print`s are said to give."""
    page = (ROOT / "docs/host-device.md").read_text(encoding="utf-8")
    block = page.partition("LOWGRAPH_HOST_DEBUG=1 gdb")[2].partition("```")[0]
    options, _, program = block.partition("(gdb)")[0].replace("\\\n", " ").partition("--args")
    told = dict(re.findall(r"^\(gdb\) (print \w.*?) +# .*: (\d+)$", block, re.MULTILINE))
    assert list(told) == ["print i", "print x[i]"]
    prints = [part for command in told for part in ("-ex", command)]
    python, *script = shlex.split(program)
    assert python == "python"
    command = ["gdb", "-batch", "-nx", *shlex.split(options), *prints, "--args", sys.executable]
    done = debugged([*command, *script], cwd=ROOT)
    assert re.findall(r"^\$\d+ = (\d+)$", done.stdout, re.MULTILINE) == list(told.values()), (
        done.stdout + done.stderr
    )


def test_a_gdb_that_is_required_and_missing_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv(REQUIRED, "required")
    with pytest.raises(pytest.fail.Exception, match="LOWGRAPH_GDB=required, and gdb is not inst"):
        debugged(["gdb"])
    monkeypatch.delenv(REQUIRED)
    with pytest.raises(pytest.skip.Exception, match="stepping in kernels is not tested"):
        debugged(["gdb"])


@pytest.mark.parametrize("kernel", ["write_at", "write_after_barrier"])
def test_the_native_stack_of_a_fault_names_the_kernels_line(tmp_path: Path, kernel: str) -> None:
    """By the command of docs/host-device.md; behind a barrier the stack is a fiber's."""
    page = (ROOT / "docs/host-device.md").read_text(encoding="utf-8")
    (told,) = re.findall(r"^LOWGRAPH_HOST_DEBUG=1 (gdb -batch .*) python your_step.py$", page, re.M)
    args, access = ACCESSES[kernel]
    program = tmp_path / "program.py"
    program.write_text(ACCESS.format(source=str(SOURCE), kernel=kernel, args=args))
    done = debugged([*shlex.split(told), sys.executable, str(program)], path=str(ROOT))
    said = done.stdout + done.stderr
    assert "received signal SIGSEGV" in said, said
    line = line_of(access, f"void {kernel}(")
    innermost = rf"^#0 .* in {kernel} \(x=0x\w+, at=1024, bad=5.*\) at \S+/faults\.cu:{line}$"
    assert re.search(innermost, done.stdout, re.MULTILINE), said
    assert re.search(r"^#\d+ .* in lowgraph::Block::fiber_main", done.stdout, re.MULTILINE), said


def test_debug_kernels_are_cached_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = set()
    for told in ("", "0", "1"):
        monkeypatch.setenv(DEBUG, told)
        keys.add(kernel_build.compiler_key())
    assert len(keys) == 2
    monkeypatch.setenv(DEBUG, "yes")
    with pytest.raises(ConfigError, match=r"LOWGRAPH_HOST_DEBUG is 'yes': give 1 for kernels"):
        kernel_build.compiler_key()


def test_an_unknown_sanitizer_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOWGRAPH_HOST_SANITIZE", "memory")
    with pytest.raises(ConfigError, match="'memory': give one of thread, address"):
        settings.sanitizer_flags()


@pytest.mark.parametrize("left_out", [*sanitize.NOT_RUN, *chain(*sanitize.NOT_RUN_BY.values())])
def test_what_no_sanitizer_runs_is_there(left_out: str) -> None:
    """pytest says nothing of a test to leave out that has another name by now."""
    file, _, test = left_out.partition("::")
    source = (ROOT / file).read_text(encoding="utf-8")
    assert f"def {test.partition('[')[0]}(" in source or not test
