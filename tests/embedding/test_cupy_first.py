"""Arrays of the host in a window: `cupy_ops` refuses them before CuPy has memory for them.

With CuPy's entry points recorded (fake_cupy), and the pool, the window and the graph real.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest

from lowgraph import driver
from lowgraph.capture import Phase
from lowgraph.errors import CaptureRefused, PageableHostMemory
from lowgraph.interop import cupy_pinned
from tests.embedding import fake_cupy as fake
from tests.embedding.first_body import body_of, elsewhere, fails, in_window, refusal_of
from tests.embedding.small import Small
from tests.field_cases.bare import foreign

pytestmark = [pytest.mark.host, pytest.mark.usefixtures("recorded")]


def stands() -> bool:
    """Whether CuPy's own allocator of pinned memory is the one that is set."""
    return cupy_pinned._is_set(fake.cupy, fake.pinned_pool)


def test_an_array_of_the_host_is_refused_before_it_is_copied(small: Small) -> None:
    refusal = refusal_of(small, lambda: fake.alloc_pinned_memory(132))
    assert type(refusal) is PageableHostMemory
    assert "CuPy would copy 132 bytes of an array or list of the host" in refusal.reason
    assert "in the capture window of 'step'" in refusal.reason
    for remedy in ("before the step", "lists as indices", "staging slot of the pool"):
        assert remedy in refusal.remedy
    assert "fake_cupy.py:" in str(refusal.where), "CuPy's folder is passed over, the fake's is not"
    assert fake.pinned_pool.asked.count(132) == 1, "in the priming pass alone"


def test_other_threads_get_their_pinned_memory_meanwhile(small: Small) -> None:
    found: list[object] = []
    act = in_window(lambda: found.extend(elsewhere(lambda: fake.alloc_pinned_memory(77))))
    small.ready(body=body_of(small, act))
    assert not isinstance(found[0], Exception) and 77 in fake.pinned_pool.asked


def test_in_other_passes_nothing_is_set(small: Small) -> None:
    seen: list[bool] = []
    small.ready(
        body=body_of(small, lambda: seen.append(fake.pinned.get() == fake.pinned_pool.malloc))
    )
    assert seen == [True, False] and stands()


@pytest.mark.parametrize("error", [KeyError, KeyboardInterrupt])
def test_cupys_own_allocator_is_put_back_whatever_leaves_the_block(
    small: Small, error: type[BaseException]
) -> None:
    def act() -> None:
        raise error("mine")

    step = small.step(body=body_of(small, in_window(act)))
    step.prime()
    with pytest.raises(error, match="mine"):
        step.capture()
    assert stands()


def test_an_allocator_that_somebody_set_stays_also_in_the_window(small: Small) -> None:
    asked: list[int] = []
    fake.set_pinned_memory_allocator(asked.append)
    try:
        small.ready(body=body_of(small, lambda: fake.alloc_pinned_memory(5)))
        assert asked.count(5) == 2 and fake.pinned.get() == asked.append
    finally:
        fake.set_pinned_memory_allocator(fake.pinned_pool.malloc)


def test_an_allocator_that_is_set_in_the_window_stays(small: Small) -> None:
    asked: list[int] = []

    def act() -> None:
        with suppress(CaptureRefused):
            fake.alloc_pinned_memory(3)
        fake.set_pinned_memory_allocator(asked.append)

    step = small.step(body=body_of(small, in_window(act)))
    step.prime()
    with pytest.raises(PageableHostMemory):
        step.capture()
    try:
        fake.alloc_pinned_memory(5)
        assert asked == [5]
    finally:
        fake.set_pinned_memory_allocator(fake.pinned_pool.malloc)


def wrapped() -> Callable[[int], Any]:
    behind = fake.pinned_pool.malloc
    return lambda nbytes: behind(nbytes + 1)


OTHERS: dict[str, Callable[[], Callable[[int], Any]]] = {
    "a function around it": wrapped,
    "partial": lambda: functools.partial(fake.pinned_pool.malloc),
    "another pool's": lambda: fake.PinnedMemoryPool().malloc,
    "one that fails": lambda: fails,
    "one of its own": lambda: lambda nbytes: SimpleNamespace(mem=None),
}


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("keeps", [False, True])
def test_another_one_is_not_taken_for_cupys_own(name: str, keeps: bool) -> None:
    """Nor while running code keeps CuPy's own, to put it back later."""
    kept = fake.pinned_pool.malloc if keeps else None
    fake.set_pinned_memory_allocator(OTHERS[name]())
    try:
        assert not stands()
    finally:
        fake.set_pinned_memory_allocator(kept or fake.pinned_pool.malloc)
    del kept
    assert stands()


def test_what_cupy_asks_the_driver_as_it_is_looked_at_breaks_no_capture(
    small: Small, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It looks at the events of earlier copies whenever it is asked for pinned memory."""
    event, codes = driver.event.create(), list[int]()
    driver.event.record(event, small.stream)

    def asks(nbytes: int) -> Any:
        codes.append(foreign("cuEventQuery", event))
        return fake.alloc_pinned_memory(nbytes)

    monkeypatch.setattr(fake.cupy.cuda, "alloc_pinned_memory", asks)
    monkeypatch.setattr(cupy_pinned, "_known", None)
    assert small.ready(body=body_of(small, lambda: None)).phase is Phase.READY
    assert codes == [0, 0], "before the window, and in it"
    driver.event.destroy(event)


def test_what_was_put_back_is_known_without_a_search(
    small: Small, monkeypatch: pytest.MonkeyPatch
) -> None:
    small.ready(body=body_of(small, lambda: None))
    with monkeypatch.context() as patched:
        patched.setattr(cupy_pinned.gc, "get_referrers", fails)
        assert stands()
        fake.set_pinned_memory_allocator(fake.pinned_pool.malloc)
        with pytest.raises(KeyError):
            stands()
    assert stands()
