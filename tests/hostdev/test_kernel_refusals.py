"""What the host device cannot run is refused with file, line and what to do, never skipped."""

from __future__ import annotations

from pathlib import Path

import pytest

from lowgraph.errors import BuildError
from lowgraph.hostdev import kernel_build

pytestmark = pytest.mark.host
BEGIN = 'extern "C" __global__ void k(float* x) {\n'
TWIN = "#ifdef LOWGRAPH_HOST"

# what -> (text before the kernel, a line of its body, words of the error)
REFUSED = {
    "asm volatile": ("", 'asm volatile("bar.sync 0;");', "inline assembly"),
    "__asm__": ("", '__asm__("" ::: "memory");', "inline assembly"),
    "wmma": ("#include <mma.h>\n", "", "tensor cores"),
    "wmma without its header": ("", "nvcuda::wmma::fill_fragment(f, 0.0f);", "tensor cores"),
    "pipeline and barrier": ("", "__pipeline_arrive_on(x);", "use __pipeline_memcpy_async"),
    "experimental pipeline": ("", "nvcuda::experimental::pipeline p;", "asynchronous copy"),
    "memcpy_async": ("", "memcpy_async(group, x, x, 16);", "use __pipeline_memcpy_async"),
    "group copies": ("#include <cooperative_groups/memcpy_async.h>\n", "", "asynchronous copy"),
    "cuda::barrier": ("#include <cuda/barrier>\n", "", "asynchronous copy"),
    "cuda::pipeline": ("#include <cuda/pipeline>\n", "", "asynchronous copy"),
    "cuda::atomic_ref": ("#include <cuda/atomic>\n", "", "cuda::atomic"),
    "cuda::atomic_ref without its header": ("", "cuda::atomic_ref<float> r(*x);", "use atomicAdd"),
    "texture": ("", "x[0] = tex2D<float>(t, 0.5f, 0.5f);", "plain device memory"),
    "texture object": ("__constant__ cudaTextureObject_t t;\n", "", "plain device memory"),
    "surface": ("", "surf2Dwrite(x[0], s, 0, 0);", "plain device memory"),
    "launch": ("", "other<<<1, 32>>>(x);", "launch the kernel from Python"),
    "runtime call": ("", "cudaDeviceSynchronize();", "host code out of the .cu file"),
    "managed": ("__device__ __managed__ int counter;\n", "", "cuMemAllocManaged"),
    "cluster size": ("", "this_cluster().sync();", "cluster"),
    "address of shared memory": ("", "auto a = __cvta_generic_to_shared(x);", TWIN),
}


def _refusal(folder: Path, text: str) -> str:
    (folder / "k.cu").write_text(text)
    with pytest.raises(BuildError) as caught:
        kernel_build.compile(folder / "k.cu", [], {})
    return str(caught.value).splitlines()[0]


@pytest.mark.parametrize("case", REFUSED)
def test_feature_of_a_gpu_is_refused_with_its_line(tmp_path: Path, case: str) -> None:
    before, inside, says = REFUSED[case]
    text = f"\n{before}{BEGIN}\n    {inside}\n}}\n"
    wanted = inside or before
    line = next(i for i, found in enumerate(text.splitlines(), 1) if wanted.strip() in found)
    first = _refusal(tmp_path, text)
    assert first.startswith(f"{tmp_path / 'k.cu'}:{line}: the host device does not run ")
    assert says in first
    assert "docs/kernels.md" in first or says in (
        "use atomicAdd",
        "launch the kernel from Python",
    )


def test_cluster_attribute_is_refused(tmp_path: Path) -> None:
    text = 'extern "C" __global__ void\n__cluster_dims__(2, 1, 1) k(float* x) {}\n'
    first = _refusal(tmp_path, text)
    assert first.startswith(f"{tmp_path / 'k.cu'}:2:")
    assert "cluster" in first and TWIN in first


def test_feature_in_an_included_file_names_that_file(tmp_path: Path) -> None:
    (tmp_path / "part.cuh").write_text('\n\n__device__ void f() { asm("nop;"); }\n')
    first = _refusal(tmp_path, '#include "part.cuh"\n' + BEGIN + "}\n")
    assert first.startswith(f"{tmp_path / 'part.cuh'}:3:")


def test_refused_header_behind_another_names_the_line_that_asks_for_it(tmp_path: Path) -> None:
    (tmp_path / "part.cuh").write_text("#pragma once\n#include <mma.h>\n")
    first = _refusal(tmp_path, '\n#include "part.cuh"\n' + BEGIN + "}\n")
    assert first.startswith(f"{tmp_path / 'part.cuh'}:2:")


def test_after_an_include_lines_are_still_right(tmp_path: Path) -> None:
    (tmp_path / "part.cuh").write_text("struct P { int a; };\n\n\n")
    text = '#include "part.cuh"\n#include <cuda_fp16.h>\n' + BEGIN + '    asm("nop;");\n}\n'
    assert _refusal(tmp_path, text).startswith(f"{tmp_path / 'k.cu'}:4:")


def test_grid_barrier_is_refused_where_it_is_called(tmp_path: Path) -> None:
    text = "#include <cooperative_groups.h>\n" + BEGIN + (
        "    cooperative_groups::this_grid().sync();\n}\n"
    )  # fmt: skip
    first = _refusal(tmp_path, text)
    assert f"{tmp_path / 'k.cu'}:3:" in first
    assert "split the kernel in two launches" in first


TEMPLATES = {
    "wide shuffle": (
        "p[0] = __shfl_sync(0xffffffffu, p[0], 0);",
        "a shuffle moves at most 8 bytes",
    ),
    "odd tile": ("cg::thread_block_tile<5> t; t.sync();", "tiles of 1, 2, 4, 8, 16 and 32 lanes"),
    "tile of two warps": ("cg::tiled_partition<64>(cg::this_thread_block());", "tiled_partition"),
    "atomic on a struct": ("atomicExch(p, P{});", "atomics work on 2, 4 or 8 bytes"),
}


@pytest.mark.parametrize("case", TEMPLATES)
def test_misused_template_names_the_users_line_first(tmp_path: Path, case: str) -> None:
    line, says = TEMPLATES[case]
    text = (
        "#include <cooperative_groups.h>\nnamespace cg = cooperative_groups;\n"
        "struct P { double a, b, c; };\n"
        f'extern "C" __global__ void k(P* p) {{\n    {line}\n}}\n'
    )
    first = _refusal(tmp_path, text)
    assert f"{tmp_path / 'k.cu'}:5:" in first.split("error:")[0]
    assert says in first


ALLOWED = (
    "    // asm volatile, tex2D, <<<1, 1>>>\n"
    '    printf("asm( tex2D( <<<1, 32>>> cudaMalloc()");\n'
    "    struct { int tex2D; } asm_free = {1};\n"
    "#ifndef LOWGRAPH_HOST\n"
    '    asm volatile("bar.sync 0;");\n'
    "#endif\n"
    "    x[0] = asm_free.tex2D << 2;\n}\n"
)


def test_names_in_comments_strings_members_and_the_gpus_branch_are_no_features(
    tmp_path: Path,
) -> None:
    (tmp_path / "k.cu").write_text(BEGIN + ALLOWED)
    assert kernel_build.compile(tmp_path / "k.cu", [], {}).startswith(b"\x7fELF")


FORMS = {
    "template": ("template <class T>\n__global__ void k(T* x) {}\n", 2),
    "mangled name": ("\n\n__global__ void\nk(float* x) {}\n", 3),
    "mangled through a macro": (
        "#define KERNEL __global__ \\\n    void\n\nKERNEL k(float* x) {}\n",
        4,
    ),
    "in a namespace": ("namespace a {\n__global__ void k(float* x) {}\n}\n", 2),
    "in a namespace, with its name": (
        "namespace a::b {\n__device__ float half(float v) { return v * '}'; }\n" + BEGIN + "}\n}\n",
        3,
    ),
    "in a namespace without a name": (f"namespace\n{{\n{BEGIN}}}\n}}\n", 3),
    "linkage block": ('extern "C" {\n__global__ void k(float* x) {}\n}\n', 2),
}


@pytest.mark.parametrize("case", FORMS)
def test_kernel_that_cannot_be_found_by_name_is_refused(tmp_path: Path, case: str) -> None:
    text, line = FORMS[case]
    first = _refusal(tmp_path, BEGIN.replace("k(", "fine(") + "}\n" + text)
    assert first.startswith(f"{tmp_path / 'k.cu'}:{line + 2}:")
    assert 'write `extern "C" __global__ void name(...)` on each kernel' in first


def test_kernel_behind_a_namespace_is_in_none(tmp_path: Path) -> None:
    """Its braces, those of literals, and namespaces of another file are not the kernel's."""
    (tmp_path / "part.cuh").write_text("namespace c { struct P { int a; }; }\n")
    (tmp_path / "k.cu").write_text(
        "namespace a { namespace b { __device__ int f() { return \"{\"[0] + '{'; } } }\n"
        '#include "part.cuh"\nusing namespace a;\n' + BEGIN + "    x[0] = b::f();\n}\n"
    )
    assert b"lowgraph_kernel_k" in kernel_build.compile(tmp_path / "k.cu", [], {})


SPELLINGS = (
    '#define KERNEL(bound) extern "C" \\\n    __global__ \\\n    __launch_bounds__(bound) void\n'
    "KERNEL(64)\none(float* x) {}\n"
    'extern "C" __launch_bounds__(128) __global__ void two(float* x) {\n'
    "    extern __align__(16) __shared__ float tile[];\n    x[0] = tile[0];\n}\n"
    'extern "C"\n__global__\nvoid\nthree(\n    float* x,\n    int n\n) {}\n'
)


def test_kernels_over_several_lines_and_macros_are_found(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(SPELLINGS)
    image = kernel_build.compile(tmp_path / "k.cu", [], {})
    assert all(b"lowgraph_kernel_" + name in image for name in (b"one", b"two", b"three"))
