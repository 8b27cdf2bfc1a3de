"""The library on a device: one compile a content, one load a context, and counts that show it."""

from __future__ import annotations

import json
import os
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lowgraph.errors import (
    ArgTypeError,
    BuildError,
    DriverError,
    KernelSourceError,
    ModuleLoadDuringCapture,
)
from lowgraph.hostdev import control
from lowgraph.kernels import Kernel, Library, launch
from tests.support.process import output_of
from tests.support.rig import Rig

pytestmark = pytest.mark.both

TEXT = '#include "factor.cuh"\n' + textwrap.dedent("""
    extern "C" __global__ void scale(float* y, const float* x, float a, int n)
    {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) y[i] = FACTOR * a * x[i];
    }
    extern "C" __global__ void negate(float* y, const float* x, int n)
    {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) y[i] = -x[i];
    }
""")
HEADER = "#pragma once\n#ifndef FACTOR\n#define FACTOR 1.0f\n#endif\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "factor.cuh").write_text(HEADER)
    file = tmp_path / "scale.cu"
    # The test's own folder in the text: else two tests would share one entry of the cache.
    file.write_text(f"// {tmp_path}\n{TEXT}")
    return file


@pytest.fixture
def library(rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Library:
    """A library of its own, with a cold cache."""
    monkeypatch.setenv("LOWGRAPH_CACHE_DIR", str(tmp_path / "cache"))
    return Library(rig.device)


def counts(library: Library) -> tuple[int, int, int]:
    return library.stats.compiles, library.stats.cache_hits, library.stats.loads


def run_scale(rig: Rig, kernel: Kernel, a: float = 2.0) -> list[float]:
    x = rig.put(np.arange(5, dtype=np.float32))
    y = rig.empty(5)
    kernel(rig.stream, 1, 32, y, x, a, 5)
    return [float(value) for value in rig.get(y)]


def test_a_file_is_compiled_and_loaded_once(rig: Rig, library: Library, path: Path) -> None:
    scale = library.kernel(path, "scale")
    assert counts(library) == (1, 0, 1)
    assert library.stats.compile_seconds > 0
    negate = library.kernel(path, "negate")
    assert library.kernel(str(path), "scale") is scale
    assert counts(library) == (1, 0, 1)
    assert library.kernels() == [scale, negate]
    assert run_scale(rig, scale) == [0, 2, 4, 6, 8]


def test_another_library_of_the_context_shares_the_module(
    rig: Rig, library: Library, path: Path
) -> None:
    first = library.kernel(path, "scale")
    other = Library(rig.device)
    assert other.kernel(path, "scale").handle == first.handle
    assert counts(other) == (0, 0, 0)


def test_defines_make_modules_of_their_own(rig: Rig, library: Library, path: Path) -> None:
    plain = library.kernel(path, "scale")
    tripled = library.kernel(path, "scale", {"FACTOR": "3.0f"})
    assert library.kernel(path, "scale", {"FACTOR": "3.0f"}) is tripled
    assert counts(library) == (2, 0, 2)
    assert run_scale(rig, plain)[1] == 2.0
    assert run_scale(rig, tripled)[1] == 6.0


def test_sealed_library_refuses_what_is_not_loaded(rig: Rig, library: Library, path: Path) -> None:
    known = library.kernel(path, "scale")
    library.sealed = "the window of step 'train'"
    try:
        assert library.kernel(path, "scale") is known
        library.kernel(path, "negate")  # another function of a loaded module
        with pytest.raises(ModuleLoadDuringCapture, match=r"scale of scale\.cu.*step 'train'"):
            library.kernel(path, "scale", {"FACTOR": "9.0f"})
        with pytest.raises(ModuleLoadDuringCapture):
            Library(rig.device).kernel(path, "scale", {"FACTOR": "9.0f"})
    finally:
        library.sealed = None
    library.kernel(path, "scale", {"FACTOR": "9.0f"})


def test_an_edited_file_is_compiled_anew(rig: Rig, library: Library, path: Path) -> None:
    """As in a notebook. What was handed out, and so what is recorded, keeps the code it had."""
    before = library.kernel(path, "scale")
    path.write_text(path.read_text().replace("FACTOR * a", "5.0f * a"))
    after = library.kernel(path, "scale")
    assert library.kernel(path, "scale") is after
    assert run_scale(rig, before)[1] == 2.0
    assert run_scale(rig, after)[1] == 10.0
    assert run_scale(rig, Library(rig.device).kernel(path, "scale"))[1] == 10.0
    assert counts(library) == (2, 0, 2)


def test_an_edited_header_is_too(rig: Rig, library: Library, path: Path) -> None:
    library.kernel(path, "scale")
    (path.parent / "factor.cuh").write_text(HEADER.replace("1.0f", "3.0f"))
    library.sealed = "the window of step 'train'"
    try:
        with pytest.raises(ModuleLoadDuringCapture):
            library.kernel(path, "scale")
    finally:
        library.sealed = None
    assert run_scale(rig, library.kernel(path, "scale"))[1] == 6.0


def test_everything_can_be_made_resident(library: Library, path: Path) -> None:
    from lowgraph.driver import module

    kernels = [library.kernel(path, name) for name in ("scale", "negate")]
    library.make_resident()
    assert all(module.is_resident(kernel.handle) for kernel in kernels)


def test_each_is_loaded_by_one_call_however_many_captures_follow(
    rig: Rig, library: Library, path: Path
) -> None:
    library.kernel(path, "scale")
    with rig.device.count_calls() as first:
        library.make_resident()
    library.kernel(path, "negate")
    with rig.device.count_calls() as second:
        library.make_resident()
        library.make_resident()
    if first.counted_by:
        assert (first.calls["cuFuncLoad"], second.calls["cuFuncLoad"]) == (1, 1)


@pytest.mark.host
def test_a_load_that_failed_is_made_again(library: Library, path: Path) -> None:
    from lowgraph.driver import module

    kernels = [library.kernel(path, name) for name in ("scale", "negate")]
    control.fail("cuFuncLoad", 2, 999)
    try:
        with pytest.raises(DriverError, match="cuFuncLoad"):
            library.make_resident()
        calls = control.calls("cuFuncLoad")
        library.make_resident()
    finally:
        control.fail("cuFuncLoad", 0, 0)
    assert control.calls("cuFuncLoad") == calls + 1
    assert all(module.is_resident(kernel.handle) for kernel in kernels)


def test_misfit_at_a_launch_launches_nothing(rig: Rig, library: Library, path: Path) -> None:
    scale = library.kernel(path, "scale")
    x, y, wrong = rig.put(np.ones(5, np.float32)), rig.empty(5), rig.put(np.ones(5))
    with pytest.raises(ArgTypeError, match=r"scale: x wants .*float32.*given a \w+ of float64"):
        scale(rig.stream, 1, 32, y, wrong, 2.0, 5)
    with pytest.raises(ArgTypeError, match=r"scale: n wants a value of int, given float 5\.0"):
        scale(rig.stream, 1, 32, y, x, 2.0, 5.0)
    assert np.isnan(rig.get(y)).all()
    scale(rig.stream, 1, 32, y, x, 2.0, 5)  # and the kernel is still good
    assert (rig.get(y) == 2.0).all()


def test_observer_gets_arguments_by_name_before_the_launch(
    rig: Rig, library: Library, path: Path
) -> None:
    scale = library.kernel(path, "scale")
    x, y = rig.put(np.ones(5, np.float32)), rig.empty(5)
    seen: list[Any] = []

    def refuse(kernel: Kernel, values: dict[str, Any], config: Any, args: Any) -> None:
        seen.append((kernel, values, repr(config), args))
        raise ModuleLoadDuringCapture("stop")

    launch.observer = refuse
    try:
        with pytest.raises(ModuleLoadDuringCapture):
            scale(rig.stream, 3, 32, y, x, 2.0, 5)
    finally:
        launch.observer = None
    ((kernel, values, config, args),) = seen
    assert args == (y, x, 2.0, 5)
    assert kernel is scale
    assert values == {"y": y.address, "x": x.address, "a": 2.0, "n": 5}
    assert "grid=(3, 1, 1) block=(32, 1, 1)" in config
    assert np.isnan(rig.get(y)).all()


def test_type_hidden_by_a_macro_is_found_out(library: Library, tmp_path: Path) -> None:
    path = tmp_path / "hidden.cu"
    path.write_text('#define int long long\nextern "C" __global__ void k(int n, int m) {}\n')
    with pytest.raises(KernelSourceError, match=r"hidden\.cu:2: k\(int n, int m\).*by the driver"):
        library.kernel(path, "k")


def test_compile_error_names_file_and_line(library: Library, tmp_path: Path) -> None:
    path = tmp_path / "broken.cu"
    path.write_text('\n\nextern "C" __global__ void k(float* y) { y = nonsense; }\n')
    with pytest.raises(BuildError, match=r"broken\.cu[:(]3"):
        library.kernel(path, "k")
    assert counts(library)[2] == 0


def test_sizes_of_any_kind_follow_each_other(rig: Rig, library: Library, path: Path) -> None:
    """A NumPy number beside a tuple compares to an array: no reason to refuse the launch."""
    kernel = library.kernel(path, "scale")
    for size in (np.int64(1), (1, 1), np.int64(1), 1, (1,)):
        kernel(rig.stream, size, size, 0, 0, 1.0, 0)
    rig.sync()


def test_launches_from_two_threads_keep_their_arguments(
    rig: Rig, library: Library, path: Path
) -> None:
    from threading import Thread

    scale = library.kernel(path, "scale")
    x = rig.put(np.ones(64, np.float32))
    outputs = [rig.empty(64), rig.empty(64)]

    def work(index: int) -> None:
        rig.device.make_current()
        for _ in range(200):
            scale(rig.stream, 1, 64, outputs[index], x, float(index + 1), 64)

    threads = [Thread(target=work, args=(index,)) for index in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [rig.get(output).tolist() for output in outputs] == [[1.0] * 64, [2.0] * 64]


@pytest.mark.usefixtures("library")  # for its cold cache
def test_the_first_compile_is_told_once(rig: Rig, path: Path) -> None:
    said: list[str] = []
    library = Library(rig.device, say=said.append)
    assert said == []
    library.kernel(path, "scale")
    assert said == ["compiling the kernels (first use) ..."]
    library.kernel(path, "scale", {"FACTOR": "2.0f"})
    assert (library.stats.compiles, len(said)) == (2, 1)


@pytest.mark.usefixtures("library")
def test_what_the_cache_has_is_not_told(rig: Rig, path: Path) -> None:
    Library(rig.device).kernel(path, "scale")
    moved = path.with_name("moved") / path.name  # another module of the process, the same image
    moved.parent.mkdir()
    moved.write_text(path.read_text())
    moved.with_name("factor.cuh").write_text(HEADER)
    said: list[str] = []
    library = Library(rig.device, say=said.append)
    library.kernel(moved, "scale")
    assert (library.stats.cache_hits, said) == (1, [])


SECOND_RUN = """
import json, sys
from lowgraph import driver
from lowgraph.kernels import Library
library = Library(driver.open_device({device!r}))
library.kernel({path!r}, "scale")
stats = library.stats
print(json.dumps([stats.compiles, stats.cache_hits, stats.loads]))
"""


def run_in_a_new_process(rig: Rig, path: Path, cache: Path) -> list[int]:
    code = SECOND_RUN.format(device=rig.device.spec, path=str(path))
    return list(json.loads(output_of(code, {"LOWGRAPH_CACHE_DIR": str(cache)})))


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """A cache folder without kernels; what else the real one holds (the host library) is shared."""
    from lowgraph.hostdev import cachedir

    folder = tmp_path / "shared-cache"
    folder.mkdir(mode=0o700)
    for entry in cachedir.cache_dir().iterdir():
        if entry.name != "kernels":
            os.symlink(entry, folder / entry.name)
    return folder


def test_second_process_compiles_nothing(rig: Rig, path: Path, cache: Path) -> None:
    assert run_in_a_new_process(rig, path, cache) == [1, 0, 1]
    assert run_in_a_new_process(rig, path, cache) == [0, 1, 1]


def test_changed_header_is_compiled_again(rig: Rig, path: Path, cache: Path) -> None:
    assert run_in_a_new_process(rig, path, cache) == [1, 0, 1]
    path.with_name("factor.cuh").write_text(HEADER.replace("1.0f", "4.0f"))
    assert run_in_a_new_process(rig, path, cache) == [1, 0, 1]


def test_corrupted_entry_is_built_again(rig: Rig, path: Path, cache: Path) -> None:
    assert run_in_a_new_process(rig, path, cache) == [1, 0, 1]
    (entry,) = (cache / "kernels").iterdir()
    entry.write_bytes(entry.read_bytes()[:-100])
    assert run_in_a_new_process(rig, path, cache) == [1, 0, 1]
    assert run_in_a_new_process(rig, path, cache) == [0, 1, 1]
