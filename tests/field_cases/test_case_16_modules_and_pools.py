"""Case 16, continued: an old module, or a pool with its slabs, is what the collector finds."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from lowgraph import driver
from lowgraph.capture import Phase
from lowgraph.errors import CaptureAllocationError, CaptureRefused, ModuleLoadDuringCapture
from lowgraph.kernels import Library
from lowgraph.memory import PersistentPool, open_window
from tests.capture.micro import Micro
from tests.capture.test_refusals import assert_sound
from tests.field_cases.bare import BLOCK, GRID, INVALIDATED, NOT_PERMITTED, SOURCE, Bare, N, foreign
from tests.field_cases.test_case_16_collector import collector as collector  # autouse here too
from tests.support.codes import code_of

Give = Callable[[int], Any]
KINDS = ("module", "slabs")


class Owner:
    """Gives what it owns back when it is collected, and only the collector can reach it."""

    def __init__(self, handles: list[int], give: Give, told: list[Any]) -> None:
        self.handles, self.give, self.told = handles, give, told
        self.me = self

    def __del__(self) -> None:
        for handle in self.handles:
            try:
                self.told.append(self.give(handle))
            except CaptureRefused as refusal:  # it would be lost: nobody calls a finalizer
                self.told.append(refusal)


class Old:
    """A module, or two slabs, made for an Owner; freed at the test's end if they still are."""

    def __init__(self, micro_or_bare: Micro | Bare, kind: str) -> None:
        self.module = kind == "module"
        library = micro_or_bare.rig.library
        self.handles = (
            [driver.module.load_data(library.compiled(SOURCE))]
            if self.module
            else [driver.memory.alloc(4096), driver.memory.alloc(1 << 20)]
        )
        self.told: list[Any] = []

    def foreign(self, handle: int) -> int:
        return int(foreign("cuModuleUnload" if self.module else "cuMemFree", handle))

    def through_us(self, handle: int) -> int:
        (driver.module.unload if self.module else driver.memory.free)(handle)
        return 0

    def drop(self, give: Give) -> None:
        Owner(self.handles, give, self.told)  # garbage at once

    def give_back(self) -> None:
        for handle in self.handles:
            self.through_us(handle)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mode", ["thread_local", "global"])
def test_bare_its_finalizer_breaks_the_capture_and_frees_nothing(
    bare: Bare, kind: str, mode: str
) -> None:
    old, out = Old(bare, kind), bare.rig.empty(N)
    fill = bare.kernel("fill")
    old.drop(old.foreign)
    later: list[int] = []

    def window() -> None:
        fill(bare.stream, GRID, BLOCK, out, 1.0, N)
        gc.collect()
        later.append(code_of(lambda: fill(bare.stream, GRID, BLOCK, out, 2.0, N)))

    assert bare.end_code(window, mode) == INVALIDATED
    assert old.told[0] == NOT_PERMITTED and later == [INVALIDATED], "an innocent launch is blamed"
    assert all(told in (NOT_PERMITTED, INVALIDATED) for told in old.told)
    old.give_back()  # the finalizer has run, and it is all still there


@pytest.mark.parametrize("kind", KINDS)
def test_somebody_elses_is_not_collected_in_the_window(micro: Micro, kind: str) -> None:
    """What would have broken the capture waits: the collector is paused, whatever the threshold."""
    old = Old(micro, kind)
    thresholds = gc.get_threshold()

    def churn(number: int) -> None:
        if open_window.mine() is not None:
            old.drop(old.foreign)
            gc.set_threshold(1)
            kept = [[n] for n in range(5000)]
            assert kept and old.told == []

    micro.extra = churn
    gc.enable()
    try:
        step = micro.step()
        step()
        step()
    finally:
        gc.set_threshold(*thresholds)
    gc.collect()
    assert step.phase is Phase.READY
    assert old.told == [0] * len(old.handles), "given back, once the window was over"


@pytest.mark.parametrize(
    ("kind", "refusal"), [("module", ModuleLoadDuringCapture), ("slabs", CaptureAllocationError)]
)
def test_a_body_that_collects_is_refused_before_the_finalizers_call(
    micro: Micro, kind: str, refusal: type[CaptureRefused]
) -> None:
    """gc.collect() in the body: the finalizer's call comes through us, and the driver is spared."""
    old = Old(micro, kind)
    statuses: list[str] = []

    def collect(number: int) -> None:
        if open_window.mine() is not None:
            old.drop(old.through_us)
            gc.collect()
            statuses.append(driver.stream.capture_status(micro.stream))

    micro.extra = collect
    gc.enable()
    step = micro.step()
    step.prime()
    with pytest.raises(refusal) as raised:
        step.capture()
    call = "cuModuleUnload" if old.module else "cuMemFree"
    assert f"{call} was called in the capture window of 'step'" in str(raised.value)
    assert statuses == ["active"] and old.told[0] is raised.value, "though its finalizer hid it"
    assert_sound(micro)
    old.give_back()
    micro.extra = lambda number: None
    step()
    step()
    assert step.phase is Phase.READY and micro.state() == micro.expected(3)


# ---- ours: no finalizer of lowgraph's makes a driver call ----


def _collect_in_window(micro: Micro) -> list[str]:
    """Driver calls that a collection inside a window makes; the window's graph has to be good."""
    calls: list[str] = []

    def collect(number: int) -> None:
        if open_window.mine() is not None:
            before = driver.gate.observer
            driver.gate.observer = lambda name, args, code: calls.append(name)
            try:
                gc.collect()
            finally:
                driver.gate.observer = before

    micro.extra = collect
    step = micro.step()
    step()
    step()
    assert step.phase is Phase.READY and micro.state() == micro.expected(2), step.report().text()
    return calls


def test_a_dropped_library_of_ours_unloads_nothing(micro: Micro) -> None:
    library: Any = Library(micro.rig.device)
    fill = library.kernel(SOURCE, "fill")
    library.me, library.held = library, fill
    del library, fill
    assert _collect_in_window(micro) == []
    fill, out = micro.rig.library.kernel(SOURCE, "fill"), micro.rig.empty(N)
    fill(micro.stream, GRID, BLOCK, out, 2.0, N)
    assert np.all(micro.rig.get(out) == 2.0), "its module is there for whoever asks next"


@pytest.fixture
def recorded_frees(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Addresses that were handed to the driver layer's free."""
    freed: list[int] = []
    real = driver.memory.free
    monkeypatch.setattr(driver.memory, "free", lambda at: (freed.append(at), real(at)))
    yield freed


def test_a_dropped_pool_of_ours_frees_nothing_in_the_window(
    micro: Micro, recorded_frees: list[int]
) -> None:
    """Nor later: whether a kernel in flight uses a slab is for its owner to know, who closes it."""
    pool: Any = PersistentPool(micro.rig.device, poison=False)
    slabs = [pool.take(f"slab {n}", 1000 * (n + 1)) for n in range(3)]
    pool.give_back(slabs[1])  # free, held and in use: one of each
    addresses = [piece._address for piece in slabs]
    pool.me = pool
    del pool, slabs
    assert _collect_in_window(micro) == []
    assert not set(addresses) & set(recorded_frees)
    for address in addresses:  # still the process's: nobody else could free them otherwise
        driver.memory.free(address)
