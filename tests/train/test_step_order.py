"""In which order, and on which streams, a training step issues what is around its passes."""

from __future__ import annotations

from typing import Any

import pytest

from lowgraph.driver import Device, gate
from lowgraph.driver.launch import LaunchConfig
from lowgraph.kernels import Kernel, launch
from lowgraph.models import find_preset
from lowgraph.train.classes import drawn_classes
from lowgraph.train.parts import Parts
from lowgraph.train.plan import Plan, Schedule

pytestmark = pytest.mark.both


def test_the_control_block_advances_beside_the_pass(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind the loss, far from the draw, which reads the number before; in front of the norm."""
    shape = find_preset("mlp", "nano").model
    plan = Plan("mlp", "nano", shape, Schedule(steps=4, warmup=0, learning_rate=0.1, batch=16), 1)
    data = drawn_classes(shape.features, shape.classes)
    parts = Parts(device, plan, data, graph=False, ring_slots=4)
    main, seen = parts.stream, list[tuple[str, int]]()

    def launched(kernel: Kernel, values: object, config: LaunchConfig, args: object) -> None:
        seen.append((kernel.name, int(config.raw.hStream)))

    def called(name: str, args: tuple[Any, ...], code: int) -> None:
        if name == "cuStreamWaitEvent":
            seen.append((name, int(args[0])))

    try:
        parts.advance()
        monkeypatch.setattr(launch, "observer", launched)
        monkeypatch.setattr(gate, "observer", called)
        parts.advance()
        monkeypatch.undo()
        (advance,) = (at for at, (name, _) in enumerate(seen) if name == "control_advance")
        side = seen[advance][1]
        assert side != main
        draw, fetch = ("staged_copy", main), ("staged_copy", side)
        assert seen[0] == draw
        assert seen[advance - 2 : advance] == [("cuStreamWaitEvent", side), fetch]
        # Not at the graph's begin: its second stream gets work later than its first.
        assert ("cross_entropy_forward_backward", main) in seen[:advance]
        norm = seen.index(("grad_norm", main))
        assert ("cuStreamWaitEvent", main) in seen[advance:norm]
    finally:
        parts.close()
