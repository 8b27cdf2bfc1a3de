"""Case 4: a module is compiled and loaded in the window, but only with a cold cache.

The measured driver lets the load through (0, nothing recorded), so nobody is told that a first run
compiles inside the window; drivers that forbid it fail there, and only there.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from lowgraph import driver
from lowgraph.errors import ModuleLoadDuringCapture
from lowgraph.kernels import Library
from lowgraph.memory import open_window
from tests.capture.micro import Micro
from tests.field_cases.bare import BLOCK, GRID, SOURCE, Bare, N, types_of
from tests.field_cases.remedy import names_the_line, refusal_of

FILE = Path(__file__).name


def test_bare_the_load_goes_through_unrecorded(bare: Bare) -> None:
    image = bare.rig.device.compile(SOURCE, [], {})
    out = bare.rig.empty(N)
    loaded: list[int] = []

    def first_use() -> None:
        loaded.append(driver.module.load_data(image))
        driver.module.get_function(loaded[0], "fill")
        bare.kernel("fill")(bare.stream, GRID, BLOCK, out, 1.0, N)

    graph = bare.record(first_use)
    assert loaded and types_of(graph) == {"kernel": 1}, "no trace of the load in the graph"
    driver.module.unload(loaded[0])


@pytest.mark.parametrize("cache", ["cold", "warm"])
def test_it_is_refused_with_a_cold_cache_and_with_a_warm_one(
    micro: Micro, cache: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOWGRAPH_CACHE_DIR", str(tmp_path))
    library = Library(micro.rig.device)
    source = tmp_path / "late.cu"
    source.write_text(SOURCE.read_text())
    if cache == "warm":  # on disk, not yet in this process
        library.compiled(source)
        assert library.stats.compiles == 1
    loads = library.stats.loads
    refusal = refusal_of(micro, lambda: library.kernel(source, "fill"), ModuleLoadDuringCapture)
    assert library.stats.loads == loads and library.stats.compiles == (cache == "warm")
    for part in ("kernel fill of late.cu", "would be compiled or loaded inside", "'step'"):
        assert part in str(refusal)
    assert names_the_line(refusal, FILE)


def test_a_driver_level_load_is_refused_before_it(micro: Micro) -> None:
    image = micro.rig.device.compile(SOURCE, [], {})
    refusal = refusal_of(micro, lambda: driver.module.load_data(image), ModuleLoadDuringCapture)
    assert "cuModuleLoadData was called in the capture window" in str(refusal)
    assert names_the_line(refusal, FILE)


def test_every_kernel_is_resident_before_the_begin(micro: Micro) -> None:
    """A kernel that was handed out but never ran: with lazy loading it is not there."""
    never_run = micro.rig.library.kernel(SOURCE, "mask_advance")
    seen: list[bool] = []

    def look(number: int) -> None:
        if open_window.mine() is not None:
            seen.append(driver.module.is_resident(never_run.handle))

    micro.extra = look
    step = micro.step()
    step()
    step()
    assert seen == [True]
