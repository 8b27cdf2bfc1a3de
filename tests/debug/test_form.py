"""The form of a graph says what was launched, whoever captured it."""

from __future__ import annotations

import hashlib
import json
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lowgraph import cli, debug
from lowgraph.capture import CopyIn, ForeignMemory, GraphStep, Journal
from lowgraph.capture.journal import LaunchRecord
from lowgraph.driver import Device
from lowgraph.errors import ConfigError, PhaseError
from lowgraph.kernels.source import find
from lowgraph.memory import PersistentPool
from lowgraph.train.datasets import read_data
from lowgraph.train.parts import Parts as TrainerParts
from tests.capture.bodies import SOURCE, THREE, N, Parts, chain
from tests.debug.raw import recorded
from tests.support.rig import Rig
from tests.train.runs import MICRO, micro_file, micro_plan

pytestmark = pytest.mark.both


@pytest.mark.parametrize("model", list(MICRO))
def test_a_training_step_reads_back_as_it_was_launched(
    device: Device, model: str, tmp_path: Path
) -> None:
    plan, data = micro_plan(model), read_data(model, micro_file(model, tmp_path))
    parts = TrainerParts(device, plan, data, graph=True, ring_slots=2)
    try:
        parts.advance()
        parts.advance()
        graph = parts.graph_step.graph
        assert graph is not None
        form = debug.read(parts.graph_step)
        assert form.notes == () and len(form.nodes) == graph.nodes
        launches = graph.journal.launches
        own = [node for node in form.nodes if node.attributes.get("source")]
        # The others are a library's, on a GPU: nobody told their arguments.
        assert len(own) == len(form.nodes) or parts.blas.backend == "cublas"
        assert launches and [node.name for node in own] == [one.kernel for one in launches]
        _assert_launched(own, launches)
        names = {form.memory[a.memory].name for n in form.nodes for a in n.arguments
                 if a.memory is not None}  # fmt: skip
        assert {"parameters", "gradients", "loss ring", "control block"} <= names
        pointers = [a for n in own for a in n.arguments if a.pointer]
        assert all((a.memory is None) == (a.word == 0) for a in pointers)
    finally:
        parts.close()
    assert debug.from_dict(json.loads(json.dumps(debug.as_dict(form)))) == form


def _assert_launched(nodes: list[debug.Node], launches: list[LaunchRecord]) -> None:
    """Each kernel node against the journal's launch, argument by argument."""
    for node, launch in zip(nodes, launches, strict=True):
        held = node.attributes
        assert (held["grid"], held["block"], held["shared"]) == launch.sizes
        assert (node.where, node.stage) == (launch.where, launch.stage)
        assert launch.signature is not None
        file = launch.signature.file
        assert held["source_hash"] == hashlib.sha256(file.read_bytes()).hexdigest()
        assert held["source"] == file.name == find(file.name).name
        given = dict(launch.pointers) | dict(launch.scalars)
        assert [a.name for a in node.arguments] == [p.name for p in launch.signature.params]
        for argument, param in zip(node.arguments, launch.signature.params, strict=True):
            assert argument.data == struct.pack(f"<{param.code}", given[param.name])
            assert argument.const == (param.const if param.pointer else None)
            if param.pointer:
                assert argument.word == given[param.name] and argument.value is None
            elif param.code == "f":
                assert (
                    argument.value == struct.unpack("<f", struct.pack("<f", given[param.name]))[0]
                )
            else:
                assert argument.value == given[param.name]


def test_pointers_are_slice_and_offset_and_scalars_have_their_type(parts: Parts) -> None:
    tail = parts.x.part(8, (N - 8,))
    body = chain(
        lambda p: p.functions["add"](p.stream, 3, 96, tail, 0.5, N - 8, shared=16), Parts.fill,
        Parts.copy, Parts.copy_in,
    )  # fmt: skip
    form = debug.read(parts.live(body))
    add, fill, copy, copy_in = form.nodes
    assert (form.place(add.arguments[0]), add.arguments[0].type) == ("x + 32", "float*")
    assert [a.value for a in add.arguments] == [None, 0.5, N - 8]
    assert add.attributes["grid"] == (3, 1, 1) and add.attributes["shared"] == 16
    assert add.attributes["source"] == SOURCE.name and "test_form.py:" in add.where
    assert dict(fill.attributes) == {
        "value": 0, "element": 4, "width": N, "height": 1, "pitch": 0,
    }  # fmt: skip
    assert [form.place(a) for a in copy.arguments] == ["x", "y"]
    assert [a.const for a in copy.arguments] == [False, True]
    assert [a.pointer for a in copy_in.arguments] == [True, False], "the host's end is none"
    assert form.edges == [(0, 1), (1, 2), (2, 3)]


def test_a_block_that_is_used_twice_has_the_name_of_each_use(parts: Parts) -> None:
    def body(parts: Parts) -> None:
        for name in ("first", "second"):
            piece = parts.pool.take(name, N)
            parts.functions["add"](parts.stream, 3, 128, piece, 1.0, N)
            parts.pool.give_back(piece)

    form = debug.read(parts.live(body))
    one, two = (node.arguments[0] for node in form.nodes)
    assert one.word == two.word, "the window hands the block out again"
    assert [form.place(one), form.place(two)] == ["first", "second"]


def test_what_was_set_in_the_executable_is_what_is_read(parts: Parts) -> None:
    step = parts.live(THREE)
    assert step.graph is not None
    step.graph.set_params(1, {"factor": 7.0}, grid=2)
    step.graph.enable(2, False)
    form = debug.read(step.graph)
    assert form.nodes[1].arguments[1].value == 7.0 and form.nodes[1].attributes["grid"] == (2, 1, 1)
    assert [node.enabled for node in form.nodes] == [True, True, False]
    assert form.notes == (), "the recorded node is as it was launched"


def test_a_node_that_does_not_hold_what_was_launched_is_noted(parts: Parts) -> None:
    step = parts.live(THREE)
    assert step.graph is not None
    journal: Journal = step.graph.journal
    one = journal.launches[1]
    journal.launches[1] = replace(one, scalars=(("factor", 9.0), ("n", N)), sizes=((4, 1, 1),))
    notes = debug.read(step).notes
    assert len(notes) == 2 and all("node 1 (kernel scale, " in note for note in notes)
    assert "grid is (3, 1, 1) in the driver's node, launched was (4, 1, 1)" in notes[0]
    assert "factor is 0x40000000 in the driver's node, launched was 0x41100000" in notes[1]


def test_a_fork_has_its_edges(parts: Parts) -> None:
    form = debug.read(parts.live(Parts.fork))
    assert set(form.edges) == {(0, 1), (0, 2), (1, 3), (2, 3)}


def test_a_foreign_graph_has_names_where_known_and_raw_bytes_where_not(parts: Parts) -> None:
    with recorded(parts, chain(Parts.add_all, Parts.fill)) as handle:
        form = debug.read_handle(handle, label="theirs", pool=parts.pool)
        bare = debug.read_handle(handle)
    kernel, fill = form.nodes
    assert (form.origin, form.label, kernel.name) == ("handle", "theirs", "add_all")
    assert [(a.name, a.type, a.pointer) for a in kernel.arguments] == [
        ("argument 0", "8 bytes", None),
        ("argument 1", "8 bytes", None),
        ("argument 2", "4 bytes", None),
    ]
    assert [form.place(a) for a in kernel.arguments] == ["x", "y", ""]
    assert kernel.arguments[2].data == struct.pack("<i", N)
    assert form.place(fill.arguments[0]) == "x" and fill.arguments[0].pointer
    assert bare.memory == () and bare.nodes[0].arguments[0].word == parts.x.address


def test_declared_foreign_memory_has_its_name(rig: Rig) -> None:
    pool = PersistentPool(rig.device)
    theirs = rig.put(np.ones(N, np.float32))
    memory = ForeignMemory(theirs.address, theirs.nbytes, theirs, (N,), theirs.dtype, name="theirs")
    add = rig.library.kernel(SOURCE, "add_all")
    x, pin = pool.take("x", N), CopyIn("batch", memory)

    def body(stream: int) -> None:
        add(stream, 3, 128, x, pin, N)
        add(stream, 3, 128, x, theirs.address, N)

    with GraphStep(
        body, device=rig.device, pool=pool, stream=rig.stream, library=rig.library, pins=[pin]
    ) as step:
        step()
        step()
        form = debug.read(step)
        places = [[form.place(a) for a in node.arguments[:2]] for node in form.nodes]
        assert places == [["x", "batch: master"], ["x", "theirs"]]
        assert {one.role for one in form.memory} == {"slice", "foreign"}
    pool.close()


def test_what_cannot_be_read_is_told(parts: Parts) -> None:
    with pytest.raises(ConfigError, match="has no graph to read: not recorded yet"):
        debug.read(parts.step)
    graph = parts.live(THREE).graph
    assert graph is not None
    parts.step.close()
    with pytest.raises(PhaseError, match="is closed: it cannot be asked for its pool"):
        debug.read(graph)
    for bad in (0, -1, "7"):
        given: Any = bad
        with pytest.raises(ConfigError, match="is no handle of a graph; give the integer"):
            debug.read_handle(given)


def test_the_command_records_a_models_step(
    device: Device, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, text = tmp_path / "step.json", micro_file("charlm", tmp_path)
    flags = ["--device", device.spec, "--model", "charlm", "--preset", "nano", "--data", str(text)]
    assert cli.main(["show", *flags, "--batch", "2", "--json", str(path)]) == 0
    told = capsys.readouterr().out
    form = debug.load(path)
    assert f"graph 'train step' on {device.spec}: {len(form.nodes)} nodes (" in told
    assert "model: charlm nano" in told and ", stage 'forward/embedding'" in told
    assert debug.report_of(form).findings == ()
