"""Case 14 with CuPy: `launch_host_func` on a stream that somebody else captures."""

from __future__ import annotations

import gc
import warnings
import weakref

import pytest

from lowgraph.capture import Phase, raise_pending
from lowgraph.errors import HostCallbackError
from lowgraph.interop import cupy_ops, cupy_view
from tests.capture.micro import Micro
from tests.field_cases.bare import Bare

cupy = pytest.importorskip("cupy")
pytestmark = pytest.mark.gpu


class Called:
    """A function whose life a weak reference can follow."""

    def __init__(self) -> None:
        self.arguments: list[object] = []

    def __call__(self, argument: object) -> None:
        self.arguments.append(argument)


def test_bare_cupy_keeps_the_function_for_captures_of_its_own_only(bare: Bare) -> None:
    """In ours it records the node and then has nowhere to keep what the node points at."""
    if int(cupy.__version__.partition(".")[0]) < 14:
        pytest.skip("before 14 CuPy keeps it for no capture")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its newer way, whose stream is destroyed in some 14.x
        theirs = cupy.cuda.ExternalStream(bare.stream, bare.rig.device.ordinal)
    called = Called()
    failed: list[type[BaseException]] = []

    def send() -> None:
        try:
            theirs.launch_host_func(called, 1)
        except AttributeError as error:  # of None: its list is made by its own begin_capture
            failed.append(type(error))

    graph = bare.record(send)
    assert graph and failed == [AttributeError] and called.arguments == []


def test_in_the_block_it_is_a_host_call_that_the_graph_keeps(micro: Micro) -> None:
    called = Called()
    alive, arguments = weakref.ref(called), called.arguments
    functions = [called]
    y = cupy_view(micro.y)

    def body(stream: int) -> None:
        with cupy_ops(micro.pool, stream):
            y.__iadd__(1)
            if functions:
                cupy.cuda.get_current_stream().launch_host_func(functions[0], len(arguments))

    step = micro.step(body=body)
    step.prime()
    micro.rig.sync()
    assert arguments == [0]
    step.capture()
    del called
    functions.clear()
    for _ in range(5):
        gc.collect()
        step()
    micro.rig.sync()
    assert step.phase is Phase.READY and step.report().nodes_by_type["host"] == 1
    assert arguments == [0] + [1] * 5, "called at each replay, with what it was recorded with"
    assert alive() is not None
    step.close()
    gc.collect()
    assert alive() is None


def test_what_it_raises_comes_with_its_replay(micro: Micro) -> None:
    def fail(argument: object) -> None:
        raise ValueError(argument)

    y = cupy_view(micro.y)

    def body(stream: int) -> None:
        with cupy_ops(micro.pool, stream) as theirs:
            y.__iadd__(1)
            theirs.launch_host_func(fail, "no")

    step = micro.step(body=body)
    step.prime()
    micro.rig.sync()
    with pytest.raises(HostCallbackError, match="host call 'fail' failed in an unrecorded pass"):
        raise_pending(micro.stream)
    step.capture()
    step.replay()
    micro.rig.sync()
    with pytest.raises(HostCallbackError, match="host call 'fail' failed in replay 1: ValueError"):
        step()
    assert step.phase is Phase.READY
