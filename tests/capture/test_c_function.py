"""C functions in a window: nodes of our graph, held memory, checked arguments, pins."""

from __future__ import annotations

import ctypes
import re
from collections import Counter
from typing import Any

import numpy as np
import pytest

from lowgraph import driver
from lowgraph.capture import CFunction, Conditional, CopyIn, Input, Rebind
from lowgraph.debug import Audit, read
from lowgraph.driver.memory import memset_d8_async
from lowgraph.errors import ArgTypeError, AuditFailed, ConfigError, KernelSourceError, PoolError
from lowgraph.interop import SharedStream
from lowgraph.memory import download, upload
from lowgraph.stages import stage
from lowgraph.train.atlas import Subject, measure
from tests.capture.calling_c import N, Two, is_counted

pytestmark = pytest.mark.both


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
    assert record.stage == "launch (C)" and "calling_c.py:" in record.where
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


def test_its_nodes_are_on_its_stream_unless_it_forked(two: Two) -> None:
    launch, forks = two.function("launch"), two.function("forks")

    def body(stream: int) -> None:
        launch(stream, two.y, two.x, 0.5, N)
        forks(stream, two.y, two.x, 0.5, N)
        memset_d8_async(two.y.address, 0, 4, stream)

    step = two.step("launch", body=body)
    for _ in range(2):
        step()
    streams = [(node.kind, node.stage, node.stream) for node in read(step).nodes]
    assert sorted(streams, key=str) == [
        ("kernel", "forks (C)", None),
        ("kernel", "launch (C)", 0),
        ("memset", "", 0),
        ("memset", "forks (C)", None),
    ]


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


def test_the_librarys_own_object_is_left_as_it_was(two: Two) -> None:
    """ctypes keeps one for each name: what it takes is what its user has told it."""
    theirs = two.library.launch
    theirs.argtypes = wanted = [ctypes.c_void_p] * 3
    launch = two.function("launch")
    assert two.library.launch is theirs and theirs.argtypes == wanted
    theirs.argtypes = [ctypes.c_char_p]
    launch(two.rig.stream, two.y, two.x, 0.5, N)
    theirs.argtypes = None
    assert (download(two.y, two.rig.stream) == 1).all()


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
    c_library: ctypes.CDLL, device: driver.Device, prototype: str, error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=re.escape(said)):
        CFunction(c_library, prototype)


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


def test_its_stream_may_be_anybodys(two: Two) -> None:
    call = two.function("launch")
    call(SharedStream(two.rig.stream), two.y, two.x, 0.5, N)
    assert (download(two.y, two.rig.stream) == 1).all()
    wrong: list[Any] = [None, True, -1, 1 << 64, 1.5, "x", SharedStream("x")]  # type: ignore[arg-type]
    for stream in wrong:  # ctypes would cut 2^64 to 0, the legacy stream
        with pytest.raises(ConfigError, match="is no stream: give a CUstream"):
            call(stream, two.y, two.x, 0.5, N)
    assert (download(two.y, two.rig.stream) == 1).all()


@pytest.mark.parametrize("library", [None, "libleaky.so"])
def test_what_is_no_library_is_refused(library: Any) -> None:
    with pytest.raises(
        ConfigError, match=r"is no C library: give what ctypes\.CDLL\(path\) returns"
    ):
        CFunction(library, "int launch(CUstream s)")


def test_its_fills_and_host_calls_are_not_taken_for_ours(two: Two) -> None:
    forks, calls_back = two.function("forks"), two.function("calls_back")
    piece = two.pool.take("piece", 16)

    def body(stream: int) -> None:
        for name, call in (("one", forks), ("two", calls_back), ("three", forks)):
            with stage(name):
                memset_d8_async(piece.address, 0, 8, stream)
            call(stream, two.y, two.x, 0.5, N)

    step = two.step("forks", body=body)
    for _ in range(2):
        step()
    found = [(node.stage, node.kind) for node in read(step).nodes]
    assert sorted(found) == sorted(
        [*((name, "memset") for name in ("one", "two", "three")),
         *(("forks (C)", kind) for kind in ("kernel", "memset") * 2),
         *(("calls_back (C)", kind) for kind in ("kernel", "host"))]
    )  # fmt: skip
    assert all("test_c_function.py" in node.where for node in read(step).nodes)


@pytest.mark.parametrize("nested", [False, True])
def test_its_fills_in_a_conditionals_body_are_not_taken_for_ours(two: Two, nested: bool) -> None:
    steer, forks = Conditional(two.rig.library), two.function("forks")
    piece, flag = two.pool.take("piece", 64), two.pool.take("flag", 1, np.int32)
    upload(flag, np.ones(1, np.int32), two.rig.stream)

    def inner(stream: int) -> None:
        forks(stream, two.y, two.x, 0.5, N)
        for place, name in enumerate(("one", "two")):
            with stage(name):
                memset_d8_async(piece.address, 0, 31 + place, stream)
            forks(stream, two.y, two.x, 0.5, N)

    def body(stream: int) -> None:
        def innermost(stream: int) -> None:
            steer.run_if(stream, flag, inner)

        with stage("outside"):
            memset_d8_async(piece.address, 0, 33, stream)
        steer.run_if(stream, flag, innermost if nested else inner)
        forks(stream, two.y, two.x, 0.5, N)

    step = two.step("forks", body=body)
    for _ in range(2):
        step()
    form = read(step)
    deepest = max(node.body for node in form.nodes)
    assert deepest == (2 if nested else 1)
    # By what only the node itself can tell: the fill of the library's is one of 16 words.
    fills = [node for node in form.nodes if node.kind == "memset"]
    found = {(n.body, n.stage, n.attributes["element"], n.attributes["width"]) for n in fills}
    assert found == {
        (0, "outside", 1, 33),
        (0, "forks (C)", 4, 16),
        (deepest, "one", 1, 31),
        (deepest, "two", 1, 32),
        (deepest, "forks (C)", 4, 16),
    }
    kernels = Counter((n.body, n.stage) for n in form.nodes if n.name == "leaky_sum")
    assert kernels == {(0, "forks (C)"): 1, (deepest, "forks (C)"): 3}
    assert len(fills) == 7 and all("test_c_function.py" in node.where for node in fills)
    # Once for the pass that primes and once for the replay: four calls each, y = y / 2 + 1.
    assert (download(two.y, two.rig.stream) == 2 - 0.5**7).all()


def test_the_atlas_counts_what_a_conditionals_body_holds(two: Two) -> None:
    steer, forks = Conditional(two.rig.library), two.function("forks")
    flag = two.pool.take("flag", 1, np.int32)
    upload(flag, np.ones(1, np.int32), two.rig.stream)

    def inner(stream: int) -> None:
        with stage("inside"):
            forks(stream, two.y, two.x, 0.5, N)

    subject = Subject(
        lambda stream: steer.run_if(stream, flag, inner),
        two.rig.device,
        two.pool,
        two.rig.library,
        two.rig.stream,
    )
    found = measure(subject, 3)
    inside = {name: count for (at, name), count in found.nodes.items() if at == "inside/forks (C)"}
    assert inside == {"leaky_sum": 1, "memset": 1}
    assert found.launches[("inside/forks (C)", "forks (library call)")] == 1


def test_its_kernels_in_a_conditionals_body_are_told_from_those_beside_it(two: Two) -> None:
    steer, call = Conditional(two.rig.library), two.function("launch")
    piece, flag = two.pool.take("piece", 16), two.pool.take("flag", 1, np.int32)
    upload(flag, np.ones(1, np.int32), two.rig.stream)

    def inner(stream: int) -> None:
        with stage("inside"):
            call(stream, two.y, two.x, 0.5, N)

    def body(stream: int) -> None:
        steer.run_if(stream, flag, inner)
        with stage("outside"):
            memset_d8_async(piece.address, 0, 8, stream)
            call(stream, two.y, two.x, 0.5, N)

    step = two.step("launch", body=body)
    for _ in range(2):
        step()
    found = [(node.body, node.kind, node.stage) for node in read(step).nodes if node.stage]
    assert sorted(found) == [
        (0, "kernel", "outside/launch (C)"),
        (0, "memset", "outside"),
        (1, "kernel", "inside/launch (C)"),
    ]
