"""ControlBlock: the host sets settings between steps, in stream order, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from lowgraph import counters
from lowgraph.errors import ConfigError
from lowgraph.memory import PersistentPool
from lowgraph.ops import ControlBlock
from lowgraph.ops.control import CONTROL_DTYPE, SETTINGS, SETTINGS_BYTES
from tests.support.rig import Rig


@pytest.fixture
def control(rig: Rig) -> Iterator[ControlBlock]:
    pool = PersistentPool(rig.device)
    made = ControlBlock(pool=pool, library=rig.library, stream=rig.stream,
                        total_steps=10, lr_max=0.5, seed=3, step=4)  # fmt: skip
    yield made
    made.close()
    made.close()
    pool.close()


def test_the_settings_lie_before_the_state() -> None:
    fields = CONTROL_DTYPE.fields
    assert fields is not None
    ends = {name: kind.itemsize + at for name, (kind, at) in fields.items()}
    assert max(ends[name] for name in SETTINGS) == SETTINGS_BYTES == fields["step"][1]


def test_set_changes_settings_and_leaves_the_state(rig: Rig, control: ControlBlock) -> None:
    control.advance(rig.stream)
    control.set(lr_max=2.0, lr_min=2.0, weight_decay=0.5)
    now = control.read()
    assert (now["lr_max"], now["weight_decay"], now["seed"], now["step"]) == (2.0, 0.5, 3, 5)
    assert now["lr"] != 2.0, "the running step has begun with the old one"
    control.advance(rig.stream)
    assert (control.read()["lr"], control.read()["step"]) == (2.0, 6)
    assert control.settings["lr_max"] == 2.0
    control.set(schedule="linear", clip_norm=0.5, ema_decay=0.75, ema_warmup=True)
    now = control.read()
    names = ("schedule", "clip_norm", "ema_decay", "ema_warmup", "lr_max", "step")
    assert [now[name] for name in names] == ["linear", 0.5, 0.75, True, 2.0, 6]


def test_set_is_in_stream_order_and_loses_no_write(rig: Rig, control: ControlBlock) -> None:
    """More calls than the ring has slots, with steps between and no sync by the test."""
    seen = [rig.empty(CONTROL_DTYPE.itemsize, np.uint8) for _ in range(12)]
    from lowgraph.driver import memory

    with counters.scope() as counts:
        for number, copy in enumerate(seen):
            control.set(lr_max=float(number + 1), lr_min=float(number + 1))
            control.advance(rig.stream)
            memory.copy_dtod_async(copy.address, control.address, copy.nbytes, rig.stream)
    assert "cuStreamSynchronize" not in counts.by_name
    blocks = [rig.get(copy).view(CONTROL_DTYPE)[0] for copy in seen]
    assert [float(block["lr"]) for block in blocks] == [float(n + 1) for n in range(12)]
    assert [int(block["step"]) for block in blocks] == list(range(5, 17))


def test_what_cannot_be_set_is_refused_and_writes_nothing(rig: Rig, control: ControlBlock) -> None:
    before = control.read()
    with pytest.raises(ConfigError, match="step cannot be set; the host sets total_steps"):
        control.set(step=1)
    with pytest.raises(ConfigError, match="cosine or linear or constant"):
        control.set(schedule="step")
    with pytest.raises(ConfigError, match="lr_min"):
        control.set(lr_min=9.0)
    with counters.scope() as counts, pytest.raises(ConfigError):
        control.set(beta1=1.5)
    assert counts.by_name == {} and control.read() == before and "beta1" not in control.settings
