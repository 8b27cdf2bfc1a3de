"""A kernel that touches what is not its: the sticky error, its text, and a Python that survives."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.process import output_of
from tests.support.rig import Rig

pytestmark = pytest.mark.both

KERNELS = Path(__file__).with_name("kernels.cu")

# The output address lies far behind everything that is allocated.
FAULT = """
from lowgraph import driver
from lowgraph.driver import memory, stream
from lowgraph.errors import ContextPoisoned
from lowgraph.kernels import Library

device = driver.open_device({device!r})
scale = Library(device).kernel({kernels!r}, "scale")
s, x = stream.create(), memory.alloc(1024)
for step in (lambda: scale(s, 2, 32, 1 << 45, x, 2.0, 64), lambda: stream.synchronize(s),
             lambda: memory.alloc(64)):
    try:
        step()
        print("no error")
    except ContextPoisoned as error:
        print(error.code, error.call, error.text)
print("alive")
"""


def test_bad_address_poisons_the_context_and_not_python(rig: Rig) -> None:
    code = FAULT.format(device=rig.device.spec, kernels=str(KERNELS))
    launch, sync, later, alive = output_of(code).splitlines()
    assert launch == "no error"  # asynchronous: the launch returns before the work runs
    assert sync.startswith("700 cuStreamSynchronize ")
    assert later.startswith("700 cuMemAlloc ")
    assert alive == "alive"
    if rig.device.spec == "host":
        for text in (sync, later):
            assert "scale" in text
            assert "block" in text
            assert "thread" in text
