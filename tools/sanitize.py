"""Run tests with the host device's C++ under a sanitizer: python tools/sanitize.py KIND [ARG ...].

KIND: thread, or address (which brings undefined behaviour too). ARG: what pytest takes; without any
the tests of the host device. The library is built with the sanitizer into a cache of its own
($LOWGRAPH_CACHE_DIR, else a folder beside the usual one), its runtime is loaded in front of Python,
and every process that a test starts inherits both. Kernels are not instrumented.
Exit code 1 when a test fails or the sanitizer has found something; the reports are printed.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from lowgraph.hostdev.cachedir import cache_dir
from lowgraph.hostdev.toolchain import find_compiler

ROOT = Path(__file__).resolve().parents[1]
SUPPRESSED = ROOT / "tools/thread_sanitizer.supp"
RUNTIMES = {"thread": ("libtsan.so",), "address": ("libasan.so", "libubsan.so")}
# The reports go to files: pytest keeps what a test writes to itself. Signals are the engine's, and
# tests let a process die of one. One thing is suppressed, which the file says.
COMMON = "log_path={log}:" + ":".join(
    f"handle_{s}=0" for s in ("segv", "sigbus", "sigfpe", "sigill")
)
OPTIONS = {
    "thread": {"TSAN_OPTIONS": f"{COMMON}:exitcode=0:suppressions={SUPPRESSED}"},
    # Leaks: the library leaves its tables to the end of the process on purpose.
    "address": {
        "ASAN_OPTIONS": f"{COMMON}:exitcode=66:detect_leaks=0:use_sigaltstack=0:handle_abort=0",
        "UBSAN_OPTIONS": "log_path={log}:print_stacktrace=1",
    },
}
TESTS = ["tests/hostdev", "-m", "not slow"]
# NVRTC finds its second library by its own run path, which the sanitizers' dlopen does not know;
# the second is about the compiler alone; gdb takes minutes for a process under a sanitizer.
NOT_RUN = [
    "tests/hostdev/driver/test_driver_procs.py::test_nvrtc_compiles_beside_the_host_device",
    "tests/hostdev/test_kernel_nvrtc.py",
    "tests/hostdev/driver/test_driver_build.py::test_no_part_has_a_warning",
    "tests/hostdev/test_debugging.py::test_gdb_stops_in_one_cuda_thread_at_a_line",
    "tests/hostdev/test_debugging.py::test_the_page_stops_where_it_says",
    "tests/hostdev/test_debugging.py::test_the_native_stack_of_a_fault_names_the_kernels_line",
]
# ThreadSanitizer hands a signal of another thread on at the next call that it knows: the first
# three stop a kernel by one, in a loop without a call. The next two start a shell, which dies under
# its runtime before it has read a line. Two follow an address where its shadow memory lies. The
# last is a race by itself.
NOT_RUN_BY = {
    "thread": [
        "tests/hostdev/test_check_command.py::"
        "test_an_endless_kernel_is_stopped_and_the_script_goes_on[counts]",
        "tests/hostdev/test_check_command.py::"
        "test_an_endless_kernel_is_stopped_and_the_script_goes_on[computes]",
        "tests/hostdev/test_check_command.py::test_without_checks_an_endless_kernel_is_a_fault",
        "tests/hostdev/test_kernel_build.py::test_named_compiler_is_used_and_changes_the_key",
        "tests/check/test_runs.py",
        "tests/hostdev/test_check_memory.py::"
        "test_a_bug_is_found_at_its_line_and_a_clean_kernel_has_none[no_memory]",
        "tests/hostdev/test_check_memory.py::"
        "test_an_address_without_memory_is_not_called_the_hosts",
        "tests/hostdev/test_shuffle.py::test_a_synchronous_copy_may_arrive_behind_its_call",
    ],
    # Its script reads whatever the C library's heap has behind a kernel's tile, freed or not.
    "address": ["tests/hostdev/test_check_neighbours.py"],
}
# What the tools write that is no finding: a fault leaves a thread's stack, which is none of those
# that AddressSanitizer knows of, and it says so.
FINDING = re.compile(r"ERROR: AddressSanitizer|runtime error:|WARNING: ThreadSanitizer")


def runtime(name: str) -> str:
    """Path of one of the compiler's sanitizer runtimes."""
    command = [*find_compiler().command, f"-print-file-name={name}"]
    path = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    if not Path(path).is_absolute():
        raise SystemExit(f"the C++ compiler has no {name}: install its sanitizer runtimes")
    return os.path.realpath(path)


def environment(kind: str, log: Path) -> dict[str, str]:
    told = {name: text.format(log=log) for name, text in OPTIONS[kind].items()}
    cache = cache_dir()
    if "LOWGRAPH_CACHE_DIR" not in os.environ:
        cache = cache.with_name(f"{cache.name}-{kind}")
    return {
        **os.environ,
        **told,
        "LD_PRELOAD": " ".join(runtime(name) for name in RUNTIMES[kind]),
        "LOWGRAPH_HOST_SANITIZE": kind,
        # NumPy's BLAS hands work to its threads by ways that no sanitizer sees, and is not ours.
        "OPENBLAS_NUM_THREADS": "1",
        "LOWGRAPH_CACHE_DIR": str(cache),
    }


def main(arguments: list[str]) -> int:
    if not arguments or arguments[0] not in RUNTIMES:
        raise SystemExit(__doc__)
    kind, tests = arguments[0], arguments[1:] or TESTS
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "report")
        # The compiler itself is no object of the test, and slow under a sanitizer: build before.
        built = {**environment(kind, log), "LD_PRELOAD": ""}
        build = [sys.executable, "-c", "from lowgraph.hostdev import build; build.library()"]
        subprocess.run(build, cwd=ROOT, env=built, check=True)
        left_out = [f"--deselect={test}" for test in [*NOT_RUN, *NOT_RUN_BY[kind]]]
        # The limit of a test is for what runs at full speed: the engine alone is built for minutes.
        pytest = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--timeout=1800"]
        command = [*pytest, *left_out, *tests]
        done = subprocess.run(command, cwd=ROOT, env=environment(kind, log), check=False)
        texts = [file.read_text(errors="replace") for file in sorted(Path(folder).glob("report*"))]
        for text in texts:
            print(text)
        reports = [text for text in texts if FINDING.search(text)]
        print(f"{kind}: {len(reports)} processes with findings")
    return 1 if reports or done.returncode else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
