"""A pool and a small step on the rig's device, closed at the test's end."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest

from lowgraph.driver import gate
from lowgraph.interop import cupy_block
from tests.embedding import fake_cupy as fake
from tests.embedding.small import Small
from tests.embedding.theirs import Theirs
from tests.support.rig import Rig


@pytest.fixture(scope="package", autouse=True)
def nothing_frozen() -> Iterator[None]:
    """The collector tells of all objects, as where nobody calls `gc.freeze` (tests/conftest.py)."""
    was_frozen = gc.get_freeze_count() > 0
    gc.unfreeze()
    yield
    if was_frozen:
        gc.collect()
        gc.freeze()


@pytest.fixture
def small(rig: Rig) -> Iterator[Small]:
    made = Small(rig)
    yield made
    made.close()


@pytest.fixture
def theirs(small: Small) -> Iterator[Theirs]:
    made = Theirs(small)
    yield made
    made.close()


@pytest.fixture
def heard() -> Callable[[], AbstractContextManager[list[str]]]:
    """Names of the driver calls that a block sends through the gate, in order."""

    @contextmanager
    def listening() -> Iterator[list[str]]:
        calls: list[str] = []
        before, gate.observer = gate.observer, lambda name, args, code: calls.append(name)
        try:
            yield calls
        finally:
            gate.observer = before

    return listening


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """`cupy_ops` has CuPy's entry points as recorded; what it set in them is put back then."""
    monkeypatch.setattr(cupy_block, "_ready", lambda pool: fake.cupy)
    monkeypatch.setitem(sys.modules, "cupyx", fake.cupyx)
    for kept in (fake.waited, fake.handles, fake.pinned_pool.asked):
        kept.clear()
    finders = list(sys.meta_path)
    yield
    assert fake.state.current is fake.NULL and fake.state.stack == [fake.NULL]
    assert fake.state.allocator is None and fake.state.may_wait
    assert fake.pinned.get() == fake.pinned_pool.malloc and sys.meta_path == finders


@pytest.fixture
def cupy_as_before(small: Small) -> Iterator[None]:
    """Whatever a test does, CuPy's stream and allocator are what they were when it ends."""
    cuda = pytest.importorskip("cupy").cuda
    stream, allocator = cuda.get_current_stream(), cuda.get_allocator()
    yield
    assert cuda.get_current_stream() is stream and cuda.get_allocator() == allocator
