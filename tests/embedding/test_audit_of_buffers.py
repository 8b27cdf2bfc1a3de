"""An audit names a foreign buffer that was freed: node, argument, buffer, since when."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from lowgraph import debug
from lowgraph.capture import CopyIn, GraphStep, Input, Rebind, Table
from lowgraph.debug import stale
from lowgraph.debug.audit_report import report_of
from lowgraph.errors import AuditFailed, InputMoved
from tests.embedding.small import BLOCKS, N, Small
from tests.embedding.theirs import Theirs, buffer_at

pytestmark = pytest.mark.both


def ready(small: Small, pin: Any) -> GraphStep:
    """A recorded step of y += 2 x, x a pin."""
    table = small.rig.library.kernel(small.add.signature.file, "add_twice_of_table")
    kernel = table if isinstance(pin, Table) else small.add
    step = small.step(
        lambda s: kernel(s, BLOCKS, 128, small.y, pin, N),
        **{"inputs" if isinstance(pin, Input) else "pins": [pin]},
    )
    for _ in range(3):
        step()
    small.rig.sync()
    return step


@pytest.mark.parametrize("kind", [Input, CopyIn, Rebind, Table])
@pytest.mark.parametrize("told", [True, False])
def test_a_freed_buffer_is_named(small: Small, theirs: Theirs, kind: Any, told: bool) -> None:
    """Whether its owner tells, or the driver has to be asked."""
    buffer = buffer_at(address := theirs.alloc(3), watch=not told)
    step = ready(small, kind("x", buffer))
    audit = debug.Audit.of(step)
    assert audit.check() == ()
    theirs.free(address)
    if told:
        buffer.freed()
    (found,) = audit.check()
    assert (found.node, found.argument, found.kind) == (0, "x", stale.FREED)
    assert found.memory is not None and found.memory.name == "weights"
    assert bool(re.search(r"test_audit_of_buffers\.py:\d+$", found.since)) == told
    since = r"; since \S+test_audit_of_buffers\.py:\d+" if told else ""
    way = {
        Input: "was byte 0 of",
        Rebind: "was byte 0 of",
        CopyIn: "is given copy-in pin 'x', which reads",
        Table: "is given table pin 'x', which reads",
    }[kind]
    words = (
        r"node 0 \(kernel add_twice\w*, \S+test_audit_of_buffers\.py:\d+\): "
        rf"argument x = 0x\w+ {way} 'weights' \(generation 0\), "
        rf"a foreign buffer that was freed{since}"
    )
    with pytest.raises(AuditFailed, match=words):
        audit.require()
    with pytest.raises(InputMoved):  # as the step does
        step()


def test_what_a_rebind_pin_follows_is_good_again(small: Small, theirs: Theirs) -> None:
    buffer = buffer_at(first := theirs.alloc(3), watch=False)
    step = ready(small, Rebind("x", buffer))
    audit = debug.Audit.of(step)
    buffer.freed()
    assert [one.kind for one in audit.check()] == [stale.FREED]
    buffer.moved(theirs.alloc(5))
    step()
    small.rig.sync()
    theirs.free(first)
    assert audit.check() == () and audit.form.place(audit.form.nodes[0].arguments[1]) == "weights"
    buffer.freed()
    (found,) = audit.check()
    assert found.memory is not None and found.memory.generation == 1


def test_a_move_alone_is_no_end_and_does_not_undo_one(small: Small, theirs: Theirs) -> None:
    buffer = buffer_at(first := theirs.alloc(3))
    step = ready(small, Input("x", buffer))
    audit = debug.Audit.of(step)
    buffer.moved(theirs.alloc(5))
    assert audit.check() == (), "the graph still leads to memory that is there"
    theirs.free(first)
    (found,) = audit.check()
    assert found.memory is not None and found.memory.generation == 0
    assert found.address == first


def test_an_audit_that_is_made_later_and_a_file_say_the_same(small: Small, theirs: Theirs) -> None:
    buffer = buffer_at(theirs.alloc(3))
    step = ready(small, Rebind("x", buffer))
    buffer.freed()
    (found,) = debug.Audit.of(step).check()
    form = debug.from_dict(json.loads(json.dumps(debug.as_dict(debug.read(step)))))
    (told,) = report_of(form).stale
    assert (told.kind, told.since, told.argument) == (stale.FREED, found.since, "x")


def test_a_graph_of_others_is_audited_with_a_buffers_memory(small: Small, theirs: Theirs) -> None:
    buffer = buffer_at(theirs.alloc(3), watch=False)
    with small.their_capture() as graphs:
        small.add(small.stream, BLOCKS, 128, small.y, buffer, N)
    audit = debug.Audit.of_handle(graphs[0], small.pool, foreign=[buffer.memory])
    assert audit.check() == ()
    buffer.freed()
    (found,) = audit.check()
    assert (found.node, found.argument, found.kind) == (0, "argument 1", stale.FREED)
    assert "argument 1 = " in str(found) and "'weights'" in str(found)
