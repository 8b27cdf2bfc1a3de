"""What decides an image: source, everything it includes, defines, compiler; not its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from lowgraph.errors import KernelSourceError
from lowgraph.kernels import source


@pytest.fixture
def kernel(tmp_path: Path) -> Path:
    (tmp_path / "common").mkdir()
    (tmp_path / "common" / "inner.cuh").write_text("#pragma once\n#define TWO 2\n")
    (tmp_path / "outer.cuh").write_text('#pragma once\n  #  include "common/inner.cuh"\n')
    path = tmp_path / "k.cu"
    path.write_text(
        '#include "outer.cuh"\n#include <cuda_fp16.h>\nextern "C" __global__ void k();\n'
    )
    return path


def key(path: Path, **defines: str) -> str:
    return source.content_hash(path, defines, "compiler 1")


def test_includes_are_followed(kernel: Path) -> None:
    names = [path.name for path in source.includes(kernel, ())]
    assert names == ["inner.cuh", "outer.cuh"]


def test_include_cycle_ends(kernel: Path) -> None:
    (kernel.parent / "common" / "inner.cuh").write_text('#include "../outer.cuh"\n')
    assert len(source.includes(kernel, ())) == 2


@pytest.mark.parametrize("file", ["k.cu", "outer.cuh", "common/inner.cuh"])
def test_a_change_anywhere_changes_the_key(kernel: Path, file: str) -> None:
    before = key(kernel)
    changed = kernel.parent / file
    changed.write_text(changed.read_text() + "\n")
    assert key(kernel) != before


def test_defines_and_compiler_are_in_the_key(kernel: Path) -> None:
    keys = {
        key(kernel),
        key(kernel, A="1"),
        key(kernel, A="2"),
        key(kernel, A="1", B="1"),
        key(kernel, AB="11"),
        source.content_hash(kernel, {}, "compiler 2"),
    }
    assert len(keys) == 6
    assert key(kernel, A="1", B="2") == key(kernel, B="2", A="1")


def test_a_moved_checkout_keeps_its_keys(kernel: Path, tmp_path: Path) -> None:
    moved = tmp_path / "elsewhere"
    before = key(kernel)
    moved.mkdir()
    for name in ("k.cu", "outer.cuh", "common"):
        (tmp_path / name).rename(moved / name)
    assert key(moved / "k.cu") == before


def test_own_kernels_are_found_by_name() -> None:
    assert source.find("fill.cu") == (source.kernels_folder() / "fill.cu").resolve()


def test_users_kernels_are_found_by_path_and_see_our_headers(kernel: Path) -> None:
    assert source.find(kernel) == kernel.resolve()
    assert source.include_dirs(kernel) == (kernel.parent, source.kernels_folder().resolve())


def test_relative_paths_start_at_the_current_folder(
    kernel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(kernel.parent)
    assert source.find(Path("k.cu")) == source.find("./k.cu") == kernel.resolve()
    monkeypatch.chdir(kernel.parent.parent)
    assert source.find(f"{kernel.parent.name}/k.cu") == kernel.resolve()
    with pytest.raises(KernelSourceError, match=r"k\.cu does not exist"):
        source.find(Path("k.cu"))


def test_a_bare_name_is_never_a_file_of_the_current_folder(
    kernel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(kernel.parent)
    advice = r"'k\.cu' is no .*; a kernel of your own: pass a Path, e\.g\. Path\('k\.cu'\)$"
    with pytest.raises(KernelSourceError, match=advice):
        source.find("k.cu")
    Path("fill.cu").write_text("")
    assert source.find("fill.cu") == (source.kernels_folder() / "fill.cu").resolve()


def test_missing_source_names_its_neighbours(kernel: Path) -> None:
    with pytest.raises(KernelSourceError, match=r"nothing\.cu does not exist; there are k\.cu"):
        source.find(kernel.parent / "nothing.cu")
