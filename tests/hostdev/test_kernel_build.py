"""The kernel front end: every kernel of a file is found, or the file is refused with its line."""

from __future__ import annotations

import os
from collections.abc import Mapping
from ctypes import c_int
from pathlib import Path

import numpy as np
import pytest

from lowgraph.errors import BuildError
from lowgraph.hostdev import kernel_build, toolchain
from tests.hostdev.harness import Engine, Image, compile_kernels

pytestmark = pytest.mark.host
SIMPLE = 'extern "C" __global__ void simple(int* x) { x[threadIdx.x] = 1; }\n'


def build(
    folder: Path, text: str, defines: Mapping[str, str] | None = None, **headers: str
) -> bytes:
    """Compiles `text` as k.cu, with <name>.cuh files beside it."""
    for name, content in headers.items():
        (folder / f"{name}.cuh").write_text(content)
    (folder / "k.cu").write_text(text)
    return compile_kernels(folder / "k.cu", defines)


def load(
    folder: Path, text: str, defines: Mapping[str, str] | None = None, **headers: str
) -> Image:
    (folder / "k.so").write_bytes(build(folder, text, defines, **headers))
    return Image(folder / "k.so")


def has(image: Image, name: str) -> bool:
    try:
        return image[name].name == name.encode()
    except ValueError:  # ctypes: no such symbol
        return False


def test_comments_and_conditionals_hide_kernels(tmp_path: Path, engine: Engine) -> None:
    text = SIMPLE + (
        '// extern "C" __global__ void in_a_comment(int* x) {}\n'
        '/* extern "C" __global__ void in_a_block(int* x) {} */\n'
        "#if WANTED\n" + SIMPLE.replace("simple", "wanted") + "#else\n"
        + SIMPLE.replace("simple", "unwanted") + "#endif\n"
    )  # fmt: skip
    image = load(tmp_path, text, {"WANTED": "1"})
    names = ("simple", "in_a_comment", "in_a_block", "wanted", "unwanted")
    assert [has(image, name) for name in names] == [True, False, False, True, False]


def test_kernels_of_macros_and_included_files(tmp_path: Path, engine: Engine) -> None:
    header = (
        "#pragma once\n"
        'extern "C" __global__ void from_header(int* y, const int* x) {\n'
        "    extern __shared__ __align__(16) int tile[];\n"
        "    tile[threadIdx.x] = x[threadIdx.x];\n    __syncthreads();\n"
        "    y[threadIdx.x] = tile[blockDim.x - 1 - threadIdx.x];\n}\n"
    )
    text = (
        '#include "part.cuh"\n#define MAKE(name, value) extern "C" __global__ void name(int* x) '
        "{ x[threadIdx.x] = value; }\nMAKE(make_four, 4)\nMAKE(make_five, 5)\n"
    )
    image = load(tmp_path, text, part=header)
    y, x = engine.empty(40, np.int32), engine.put(np.arange(40, dtype=np.int32))
    assert engine.launch(image["from_header"], 1, 40, y, x, shared=160).code == 0
    np.testing.assert_array_equal(y.get(), np.arange(40)[::-1])
    assert engine.launch(image["make_five"], 1, 40, y).code == 0
    assert (y.get() == 5).all()


def test_spellings_of_a_kernel_and_its_launch_bound(tmp_path: Path, engine: Engine) -> None:
    text = (
        "enum { WARPS = 4 };\n"
        'extern "C" __global__ void first(int* x, int a);\n'
        'extern "C" __global__ void __launch_bounds__(32 * WARPS, 2) first(int* x, int a) '
        "{ x[threadIdx.x] = a; }\n"
        'extern "C"\n__global__ __launch_bounds__((64))\nvoid second(\n    int* x) { x[0] = 2; }\n'
        'extern "C" __global__ void third() {}\n'
        'extern "C" __launch_bounds__(96) __global__ void fourth() {}\n'
    )
    image = load(tmp_path, text)
    entries = [image[name] for name in ("first", "second", "third", "fourth")]
    assert [entry.max_threads for entry in entries] == [128, 64, 1024, 96]
    assert [entry.param_count for entry in entries] == [2, 1, 0, 0]
    x = engine.empty(8, np.int32)
    assert engine.launch(image["first"], 1, 8, x, c_int(9)).code == 0
    assert (x.get() == 9).all()
    assert engine.launch(image["third"], 3, 8).code == 0


def test_static_shared_bytes_are_each_kernels_own(tmp_path: Path, engine: Engine) -> None:
    text = (
        'extern "C" __global__ void one(float* x) { __shared__ float a[64]; __shared__ double b; '
        "a[threadIdx.x] = b = x[0]; __syncthreads(); x[0] = a[0] + b; }\n"
        'extern "C" __global__ void two(float* x) { __shared__ alignas(16) float a[3][5]; '
        "a[0][0] = 1; __syncthreads(); x[0] = a[0][0]; }\n"
    )
    image = load(tmp_path, text)
    assert [image[name].static_shared for name in ("one", "two")] == [64 * 4 + 8, 60]


REFUSED = {
    "no extern C": ("\n__global__ void k(int* x) {}\n", 2, 'extern "C" __global__ void name'),
    "template": (
        SIMPLE + "template <class T>\n__global__ void k(T* x) {}\n", 3, 'extern "C" __global__'
    ),
    "linkage block": (
        'extern "C" {\n__global__ void k(int* x) {}\n}\n', 2, 'extern "C" __global__'
    ),
    "static": (
        SIMPLE + '\n\nstatic __global__ void k(int* x) {}\n', 4, 'extern "C" __global__'
    ),
    "void first": ('extern "C" void __global__ k(int* x) {}\n', 1, 'extern "C" __global__'),
    "no kernel": ("__device__ int f() { return 1; }\n", 1, "no kernel in this file"),
    "two arrays": (
        'extern "C" __global__ void k() {\n    extern __shared__ float a[], b[];\n}\n', 2,
        "one array a declaration",
    ),
    "sized array": (
        'extern "C" __global__ void k() {\n\n    extern __shared__ float a[8];\n}\n', 3,
        "one array a declaration",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_the_front_end_cannot_read_is_refused_with_its_line(tmp_path: Path, case: str) -> None:
    text, line, says = REFUSED[case]
    with pytest.raises(BuildError) as caught:
        build(tmp_path, text)
    first = str(caught.value).splitlines()[0]
    assert f"{tmp_path / 'k.cu'}:{line}:" in first and says in first


BROKEN = {
    "type error": (SIMPLE + "\n" + SIMPLE.replace("simple", "k").replace("= 1", '= "a"'), 3),
    "namespace": ("namespace n {\n" + SIMPLE + "}\n", 2),
    "shared at file scope": ("\nextern __shared__ float tile[];\n" + SIMPLE, 2),
    "wide shuffle": (
        SIMPLE + 'struct P { double a, b; };\nextern "C" __global__ void k(P* p) {\n'
        "    p[0] = __shfl_sync(0xffffffffu, p[0], 0);\n}\n",
        4,
    ),
    "missing include": (SIMPLE + '#include "nowhere.cuh"\n', 2),
    "clash with the C library": ("\n" + SIMPLE.replace("simple", "index"), 2),
}


@pytest.mark.parametrize("case", BROKEN)
def test_compile_errors_name_file_and_line(tmp_path: Path, case: str) -> None:
    text, line = BROKEN[case]
    with pytest.raises(BuildError) as caught:
        build(tmp_path, text)
    assert f"{tmp_path / 'k.cu'}:{line}:" in str(caught.value)
    assert "k.cu" in str(caught.value).splitlines()[0]


def test_error_in_an_included_file_names_it(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match=r"part\.cuh:2"):
        build(tmp_path, '#include "part.cuh"\n' + SIMPLE, part="\nint f( { }\n")
    with pytest.raises(BuildError, match=r"part\.cuh:2: this __global__ cannot be read"):
        build(tmp_path, '#include "part.cuh"\n' + SIMPLE, part="\n__global__ void g() {}\n")


def test_declared_kernel_without_a_body_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="ghost"):
        build(tmp_path, SIMPLE + 'extern "C" __global__ void ghost(int* x);\n')


def test_missing_file_and_missing_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BuildError, match="no such kernel source"):
        kernel_build.compile(tmp_path / "none.cu", [], {})
    monkeypatch.setenv("LOWGRAPH_CXX", "no-such-compiler")
    with pytest.raises(BuildError, match="LOWGRAPH_CXX names 'no-such-compiler'"):
        build(tmp_path, SIMPLE)
    monkeypatch.delenv("LOWGRAPH_CXX")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BuildError, match=r"no C\+\+ compiler found.*apt install g\+\+"):
        build(tmp_path, SIMPLE)


def test_named_compiler_is_used_and_changes_the_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = kernel_build.compiler_key()
    script = tmp_path / "my-cxx"
    compiler = toolchain.find_compiler()
    version = f"mine of {'clang' if compiler.is_clang else 'g++'}"
    script.write_text(
        f'#!/bin/sh\n[ "$1" = --version ] && echo {version} && exit\n'
        f'exec {" ".join(compiler.command)} "$@"\n'
    )
    os.chmod(script, 0o755)
    monkeypatch.setenv("LOWGRAPH_CXX", str(script))
    assert toolchain.find_compiler().version == version
    assert kernel_build.compiler_key() != key
    assert build(tmp_path, SIMPLE).startswith(b"\x7fELF")


def test_headers_missing_say_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(toolchain, "_pip_include_dirs", list)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    monkeypatch.setattr(toolchain, "_SYSTEM_CUDA", str(tmp_path))
    with pytest.raises(BuildError, match="pip install nvidia-cuda-runtime-cu12"):
        toolchain.cuda_include_dirs()
    (tmp_path / "include").mkdir()
    (tmp_path / "include" / "vector_types.h").touch()
    assert toolchain.cuda_include_dirs() == [tmp_path / "include"]
