"""What is no memory, no graph and no time to prime: told by a typed error, before the driver."""

from __future__ import annotations

import re
from typing import Any

import pytest

from lowgraph import driver, interop
from lowgraph.capture import ForeignMemory
from lowgraph.errors import ConfigError, PhaseError
from tests.embedding.arrays import Interface
from tests.embedding.small import N, Small

pytestmark = pytest.mark.both

WRONG = [
    ({"shape": (-1,)}, "must be at least 0"),
    ({"shape": (3, -5)}, "must be at least 0"),
    ({"shape": 5}, "describe no memory: 'int' object is not iterable"),
    ({"shape": (2.5,)}, "describe no memory: a size must be an integer, got 2.5"),
    ({"dtype": "nix"}, "describe no memory: data type 'nix' not understood"),
    ({"dtype": "O"}, "object elements are not bytes of a fixed number"),
    ({"dtype": "V0"}, "elements are not bytes of a fixed number"),
    ({"nbytes": -1, "shape": ()}, "must be at least 0"),
    ({"nbytes": 40.0}, "describe no memory: nbytes must be an integer, got 40.0"),
]


@pytest.mark.parametrize(("changes", "told"), WRONG)
def test_what_describes_no_memory(small: Small, changes: Any, told: str) -> None:
    given = {"address": small.x.address, "nbytes": 4 * N, "owner": None, "name": "theirs"}
    for kind in (interop.ForeignBuffer, ForeignMemory):
        with pytest.raises(ConfigError, match=f"^theirs: .*{re.escape(told)}"):
            kind(**{**given, **changes})


@pytest.mark.parametrize("address", [-1, 0, 1 << 64, None, "x", True, 4096.0])
def test_what_is_no_address(small: Small, address: Any) -> None:
    with pytest.raises(ConfigError, match=r"foreign memory: .* is no device address"):
        interop.ForeignBuffer(address, 4, None)
    buffer = interop.ForeignBuffer(small.x.address, 4 * N, None)
    with pytest.raises(ConfigError, match="is no device address"):
        buffer.moved(address)
    with pytest.raises(ConfigError, match="describe no memory"):
        buffer.moved(small.x.address, 4.0 * N)  # type: ignore[arg-type]
    assert (buffer.address, buffer.nbytes, buffer.generation) == (small.x.address, 4 * N, 0)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"shape": None}, "not as the protocol has it: TypeError"),
        ({"shape": (-2, -3)}, "must be at least 0"),
        ({"typestr": "zz"}, "describe no memory: data type 'zz' not understood"),
        ({"typestr": "|O"}, "are not bytes of a fixed number"),
        ({"data": None}, "not as the protocol has it: TypeError"),
        ({"data": ()}, "not as the protocol has it: IndexError"),
        ({"strides": (4, 4)}, "not as the protocol has it: ValueError"),
    ],
)
def test_an_array_interface_that_is_none(small: Small, changes: Any, told: str) -> None:
    with pytest.raises(ConfigError, match=f"input 'theirs': .*({told})"):
        interop.foreign_memory(Interface(small.x, **changes), "theirs")
    lacking = Interface(small.x)
    del lacking.__cuda_array_interface__["data"]
    with pytest.raises(ConfigError, match="not as the protocol has it: KeyError: 'data'"):
        interop.foreign_memory(lacking, "theirs")


def test_what_is_no_graph_of_ours_and_no_node_of_theirs(small: Small) -> None:
    step = small.ready()
    for subject in (None, 5, small.part()):
        with pytest.raises(ConfigError, match="is neither a GraphStep nor its CapturedGraph"):
            interop.raw_graph(subject)  # type: ignore[arg-type]
    with small.their_capture() as graphs:
        small.add(small.stream, 8, 128, small.y, small.x, N)
    parents: list[Any] = [0, -1, None, "x"]
    nodes: list[Any] = [(0,), (-1,), ("x",), (None,)]
    for parent, after in [
        *((each, ()) for each in parents),
        *((graphs[0], each) for each in nodes),
    ]:
        with pytest.raises(ConfigError, match=r"add_child of 'step': .* must be handles"):
            interop.add_child(parent, step, after)
    assert interop.add_child(graphs[0], step, driver.graph.nodes(graphs[0])[-1:])


def test_priming_on_a_stream_that_captures_leaves_the_capture_whole(small: Small) -> None:
    part = small.part()
    with small.their_capture() as graphs:
        small.add(small.stream, 8, 128, small.y, small.x, N)
        with pytest.raises(PhaseError, match=r"prime of 'part' on stream 0x.* is in a capture"):
            part.prime(small.stream)
        assert driver.stream.capture_status(small.stream) == "active"
    small.launch(graphs[0])
    assert small.value() == 2
    part.prime(small.stream)
