"""C functions in a window: nodes of our graph, held memory, and each mistake by its name."""

from __future__ import annotations

import contextlib
import ctypes
import re
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lowgraph import driver
from lowgraph.capture import CFunction, CopyIn, GraphStep, Input, Rebind
from lowgraph.cli.include import flags
from lowgraph.debug import Audit
from lowgraph.driver import gate
from lowgraph.driver.cupti import CallCount
from lowgraph.errors import (
    ArgTypeError,
    AuditFailed,
    ConfigError,
    DriverError,
    KernelSourceError,
    PoolError,
)
from lowgraph.kernels import Library
from lowgraph.memory import PersistentPool, download, open_window, upload
from lowgraph.stages import stage
from lowgraph.train.atlas import Subject, measure
from tests.foreign.programs import c_compiler
from tests.support.process import ROOT
from tests.support.rig import Rig

pytestmark = pytest.mark.both

SOURCE = Path(__file__).parent / "c_function.c"
KERNELS = ROOT / "examples" / "own_kernel.cu"
PARAMS = "CUstream stream, float* y, const float* x, float decay, int n"
N = 1000


def build(folder: Path, *more: str) -> ctypes.CDLL:
    target = folder / "library.so"
    command = [
        c_compiler(), "-std=gnu99", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", *more,
        str(SOURCE), *flags(), "-o", str(target),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stderr
    return ctypes.CDLL(str(target))


@pytest.fixture(scope="module", params=["notes", "PLAIN"])
def library(
    request: pytest.FixtureRequest, session_library: Library, tmp_path_factory: Any
) -> ctypes.CDLL:
    """The library with lowgraph.h's notes, and without."""
    more = [] if request.param == "notes" else ["-DPLAIN"]
    built = build(tmp_path_factory.mktemp("c"), *more)
    if more:
        built.lg_failure = None  # as if it had never included the header
    # Trailing bytes: the module is this library's own.
    image = session_library.compiled(KERNELS) + bytes(len(more))
    assert built.prepare(image) == 0
    built.kept = image
    return built


def is_counted(rig: Rig) -> bool:
    """Whether driver calls below us can be counted: on a GPU CUPTI does it."""
    with rig.device.count_calls() as count:
        pass
    return bool(count.counted_by)


class Two:
    """x and y in a pool, and steps whose body calls one C function."""

    def __init__(self, rig: Rig, library: ctypes.CDLL) -> None:
        self.rig, self.library = rig, library
        self.pool = PersistentPool(rig.device)
        self.x, self.y = self.pool.take("x", N), self.pool.take("y", N)
        upload(self.x, np.ones(N, np.float32), rig.stream)
        upload(self.y, np.zeros(N, np.float32), rig.stream)
        self.said: list[str] = []
        self.steps: list[GraphStep] = []
        self.decay: Any = lambda: 0.5

    def function(self, name: str, result: str = "int") -> CFunction:
        return CFunction(self.library, f"{result} {name}({PARAMS})")

    def step(self, name: str, **options: Any) -> GraphStep:
        call = self.function(name)
        made = GraphStep(
            options.pop("body", lambda s: call(s, self.y, self.x, self.decay(), N)),
            device=self.rig.device, pool=self.pool, library=self.rig.library,
            stream=self.rig.stream, say=self.said.append, **options,
        )  # fmt: skip
        self.steps.append(made)
        return made

    def refused(self, name: str, **options: Any) -> str:
        """What is said of a step that calls it, which goes on without a graph."""
        step = self.step(name, **options)
        for _ in range(2):
            step()
        assert step.report().refusals == 1 and step.report().eager_steps == 2
        (said,) = self.said
        assert "test_c_function.py:" in said, "the place in Python"
        assert driver.stream.capture_status(self.rig.stream) == "none"
        return said

    def close(self) -> None:
        for step in self.steps:
            step.close()
        self.pool.close()


@pytest.fixture
def two(rig: Rig, library: ctypes.CDLL) -> Iterator[Two]:
    made = Two(rig, library)
    yield made
    made.close()


def test_its_launches_are_nodes_of_our_graph(two: Two) -> None:
    step = two.step("launch")
    for _ in range(4):
        step()
    report = step.report()
    assert (report.replays, report.nodes, report.kernels) == (3, 1, 1)
    eager = report.launches_eager_step, report.library_calls_eager_step
    assert eager == ((1, 0) if is_counted(two.rig) else (0, 1))
    assert report.stages == {"launch (C)": 1} and report.unowned == 0
    assert step.graph is not None
    record = step.graph.node(0)
    assert record.name == "leaky_sum" and record.signature is None, "a kernel, and not ours"
    assert record.stage == "launch (C)" and "test_c_function.py" in record.where
    assert (download(two.y, two.rig.stream) == 1.875).all()


def test_the_atlas_tells_them_apart(two: Two) -> None:
    launch, rig = two.function("launch"), two.rig

    def body(stream: int) -> None:
        with stage("forward"):
            launch(stream, two.y, two.x, 0.5, N)

    found = measure(Subject(body, rig.device, two.pool, rig.library, rig.stream), 3)
    assert found.launches == found.nodes == {("forward/launch (C)", "leaky_sum"): 1}
    bare = measure(Subject(body, rig.device, two.pool, rig.library, rig.stream), 3, graph=False)
    assert sum(bare.launches.values()) == 1
    ((path, name),) = bare.launches
    assert path == "forward/launch (C)" and name.startswith("launch")


def test_its_pointers_are_held_and_audited(two: Two) -> None:
    step = two.step("launch")
    for _ in range(2):
        step()
    audit = Audit.of(step)
    report = audit.report()
    assert report.pointers == 2 and not report.stale
    names = [audit.form.memory[one.memory].name for one in audit.form.nodes[0].arguments[:2]]
    assert names == ["y", "x"]
    held = {buffer.name: buffer.role for buffer in step.graph.buffers()}  # type: ignore[union-attr]
    assert held == {"x": "unknown", "y": "unknown"}
    two.pool.give_back(two.x)
    with pytest.raises(AuditFailed, match=r"argument 1.*'x'.*given back"):
        audit.require()


def test_a_fork_of_it_is_followed(two: Two) -> None:
    step = two.step("forks")
    for _ in range(3):
        step()
    assert step.report().nodes_by_type == {"kernel": 1, "memset": 1}
    assert (download(two.y, two.rig.stream) == 1.75).all()


def test_a_host_function_of_it_runs_at_each_replay(two: Two) -> None:
    step = two.step("calls_back")
    for _ in range(6):
        step()
    assert step.report().nodes_by_type == {"host": 1, "kernel": 1}
    two.rig.sync()
    assert ctypes.c_int.in_dll(two.library, "called").value == 6
    ctypes.c_int.in_dll(two.library, "called").value = 0


def test_void_functions_and_all_kinds_of_numbers(two: Two) -> None:
    quietly = two.function("quietly", "void")
    quietly(two.rig.stream, two.y, two.x, 0.5, N)
    assert (download(two.y, two.rig.stream) == 1).all()
    half = CFunction(
        two.library,
        "int half(CUstream stream, double d, bool b, signed char c, unsigned long long u);",
    )
    half(two.rig.stream, 0.5, True, -3, 2**64 - 1)
    with pytest.raises(ArgTypeError, match="half: c wants a value of signed char, given int 300"):
        half(two.rig.stream, 0.5, True, 300, 0)


MISTAKES = {
    "allocates": ("CaptureAllocationError", "cuMemAlloc was called by allocates in the capture"),
    "swallows": ("CaptureAllocationError", "cuMemAlloc was called by swallows in the capture"),
    "copies_at_once": ("CaptureIncomplete", "cuMemcpyHtoD was called by copies_at_once in the"),
    "loads": ("ModuleLoadDuringCapture", "cuModuleLoadData was called by loads in the capture"),
    "ends": ("CaptureRefused", "cuStreamEndCapture was called by ends in the capture window"),
    "half_astray": ("CaptureIncomplete", "half_astray sent 2 kernels, and 1 became nodes"),
    "fills_astray": ("CaptureIncomplete", "fills_astray sent 1 fill, and 0 became nodes of the"),
    "nothing": ("CaptureIncomplete", "nothing sent nothing in the capture window of 'step'"),
    "never_joins": ("CaptureFailed", "904"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_each_mistake_has_its_reason(two: Two, name: str) -> None:
    if not is_counted(two.rig):
        pytest.skip("no CUPTI: calls below us are not counted here")
    kind, reason = MISTAKES[name]
    said = two.refused(name)
    assert f": {kind}: " in said and reason in said, said
    step = two.step("launch")
    for _ in range(2):
        step()
    assert step.report().replays == 1, "stream and pool are as before"


UNCOUNTED = {
    # By the note of the call that failed, else by what became of the capture.
    "allocates": {
        True: "CaptureAllocationError: .*cuMemAlloc was called by allocates",
        False: "CaptureFailed: .*allocates broke the capture of 'step': it returned 900 .*include",
    },
    "swallows": {
        True: r"CaptureFailed: .*swallows broke the capture of 'step': cuLaunchKernel.* 901",
        False: r"swallows broke the capture of 'step' \(stage 'swallows \(C\)'\); let it make no",
    },
    "ends": dict.fromkeys((True, False), "ends ended the capture of 'step'"),
    "nothing": dict.fromkeys((True, False), "nothing sent nothing that became nodes"),
}


@pytest.mark.parametrize("name", UNCOUNTED)
def test_where_nothing_counts_calls(two: Two, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a GPU without CUPTI."""
    uncounted = lambda: contextlib.nullcontext(CallCount(""))  # noqa: E731
    monkeypatch.setattr(two.rig.device, "count_calls", uncounted)
    said = two.refused(name)
    assert re.search(UNCOUNTED[name][two.library.lg_failure is not None], said), said
    step = two.step("launch")
    step()
    assert step.report().library_calls_eager_step == 1, "a launch of unknown kernels"


def test_a_failing_call_is_told_with_its_place_in_c(two: Two) -> None:
    said = two.refused("allocates")
    place = re.search(r"\(cuMemAlloc\(&scratch, 64\) at c_function\.c:(\d+) answered 900 ", said)
    if two.library.lg_failure is None:
        assert place is None
        return
    assert place is not None, said
    line = SOURCE.read_text().splitlines()[int(place[1]) - 1]
    assert "LG_CALL(cuMemAlloc, &scratch" in line


def test_a_failure_outside_a_window_is_the_drivers_error(two: Two) -> None:
    fails = two.function("fails")
    with pytest.raises(DriverError, match=r"^fails\(\) failed: 1 CUDA_ERROR_INVALID_VALUE") as seen:
        fails(two.rig.stream, two.y, two.x, 0.5, N)
    assert seen.value.code == 1 and "test_c_function.py:" in str(seen.value)
    with pytest.raises(DriverError, match=r"^minus_one\(\) failed: -1 "):
        two.function("minus_one")(two.rig.stream, two.y, two.x, 0.5, N)
    noted = "c_function.c:" in str(seen.value)
    assert noted == (two.library.lg_failure is not None)
    two.function("launch")(two.rig.stream, two.y, two.x, 0.5, N)  # the note was cleared


def test_a_code_that_it_returns_in_a_window_is_a_refusal(two: Two) -> None:
    calls = iter([two.function("launch"), two.function("fails"), two.function("launch")])
    said = two.refused("launch", body=lambda s: next(calls)(s, two.y, two.x, 0.5, N))
    assert "CaptureFailed: " in said and "1 CUDA_ERROR_INVALID_VALUE" in said, said
    assert re.search(r"fails (broke the capture|failed in the capture window) of 'step': ", said)
    assert ("it returned 1" in said) == (two.library.lg_failure is None)


def test_a_code_without_a_broken_capture_is_a_refusal_too(two: Two) -> None:
    calls = iter([two.function("launch"), two.function("minus_one"), two.function("launch")])
    said = two.refused("launch", body=lambda s: next(calls)(s, two.y, two.x, 0.5, N))
    assert "minus_one failed in the capture window of 'step': it returned -1" in said


def test_scalars_that_change_are_frozen(two: Two) -> None:
    rates = iter([0.5, 0.25, 0.25])
    two.decay = lambda: next(rates)
    said = two.refused("launch")
    assert "FrozenScalar" in said
    assert (
        "argument 'decay' of launch (library call 0) was 0.5 in the priming pass and 0.25" in said
    )


def test_scalars_that_are_declared_to_change_are_frozen(two: Two) -> None:
    said = two.refused("launch", per_step=["launch.n"])
    assert "argument 'n' of launch (library call 0) was declared to change" in said


def test_another_stream_is_refused(two: Two) -> None:
    other, launch = driver.stream.create(), two.function("launch")
    said = two.refused("launch", body=lambda s: launch(other, two.y, two.x, 0.5, N))
    assert "CaptureIncomplete" in said and f"launch was given stream {other:#x} in the" in said
    driver.stream.synchronize(other)
    driver.stream.destroy(other)


def test_a_thread_beside_it_is_not_blamed_on_it(two: Two) -> None:
    """Waits of another thread are counted below us, too."""
    other, over = driver.stream.create(), threading.Event()

    def wait() -> None:
        two.rig.device.make_current()
        while not over.is_set():
            driver.stream.synchronize(other)

    thread = threading.Thread(target=wait)
    thread.start()
    step = two.step("slow")
    try:
        for _ in range(2):
            step()
    finally:
        over.set()
        thread.join()
    assert step.report().replays == 1, two.said
    driver.stream.destroy(other)


def test_a_call_of_another_thread_is_no_part_of_the_pass(two: Two) -> None:
    """It neither counts nor touches the hooks of the window that is open meanwhile."""
    other, launch = driver.stream.create(), two.function("launch")
    slow, entered = two.function("slow"), threading.Event()

    def beside() -> None:
        two.rig.device.make_current()
        entered.wait(30)
        slow(other, two.y, two.x, 0.5, 1)
        slow(other, two.y, two.x, 0.5, 1)

    thread, passes = threading.Thread(target=beside), iter(range(9))

    def body(stream: int) -> None:
        launch(stream, two.y, two.x, 0.5, N)
        if next(passes) == 1:  # in the window
            entered.set()
            time.sleep(0.05)

    thread.start()
    step = two.step("launch", body=body)
    for _ in range(2):
        step()
    thread.join()
    assert step.report().replays == 1 and step.report().stages == {"launch (C)": 1}, two.said
    assert gate.observer is None and open_window.recorder() is None
    driver.stream.synchronize(other)
    driver.stream.destroy(other)


def test_pins(two: Two) -> None:
    launch = two.function("launch")
    x, y = CopyIn("x", two.x), Input("y", two.y)
    step = two.step("launch", body=lambda s: launch(s, y, x, 0.5, N), pins=[x], inputs=[y])
    for _ in range(3):
        step()
    assert step.report().replays == 2
    assert (download(two.y, two.rig.stream) == 1.75).all()
    moving = Rebind("x", two.x)
    said = two.refused("launch", body=lambda s: launch(s, two.y, moving, 0.5, N), pins=[moving])
    assert "rebind pin 'x'" in said


def test_a_c_library_launches_a_graph_by_its_handle(two: Two) -> None:
    step = two.step("launch")
    step.prime()
    step.capture()
    assert step.graph is not None
    replay = two.library.replay
    replay.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int]
    assert replay(step.graph.raw_executable, two.rig.stream, 3) == 0
    assert (download(two.y, two.rig.stream) == 1.875).all()


@pytest.mark.parametrize(
    ("prototype", "error", "said"),
    [
        ("int launch(float* y)", ConfigError, "is no prototype of a function to enqueue: int NAME"),
        ("float launch(CUstream s)", ConfigError, "is no prototype"),
        ("launch", ConfigError, "is no prototype"),
        ("int missing(CUstream s)", ConfigError, "has no function missing"),
        ("int launch(CUstream s, __half h)", ConfigError, "parameter h is __half by value"),
        ("int launch(CUstream s, __nv_bfloat16 h)", ConfigError, "is __nv_bfloat16 by value"),
        ("int launch(CUstream s, struct pair p)", KernelSourceError, "parameter p has type 'pair'"),
    ],
)
def test_prototypes_that_cannot_be(
    library: ctypes.CDLL, device: driver.Device, prototype: str, error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=re.escape(said)):
        CFunction(library, prototype)


def test_arguments_are_checked_as_a_kernels(two: Two) -> None:
    launch = two.function("launch")
    wide = two.pool.take("wide", N, np.float64)
    with pytest.raises(
        ArgTypeError, match="launch: x wants float32 elements, given a slice of flo"
    ):
        launch(two.rig.stream, two.y, wide, 0.5, N)
    with pytest.raises(ArgTypeError, match=r"launch: the call wants 4 arguments \(y, x, decay, n"):
        launch(two.rig.stream, two.y)
    two.pool.give_back(wide)
    with pytest.raises(PoolError, match="given back"):
        launch(two.rig.stream, two.y, wide, 0.5, N)
