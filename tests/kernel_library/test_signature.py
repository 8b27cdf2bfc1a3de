"""Reading kernel declarations from CUDA source, in every form people write them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lowgraph.errors import KernelSourceError
from lowgraph.kernels.signature import Signature, kernel_names, read_signature


def read(tmp_path: Path, text: str, name: str = "k") -> Signature:
    path = tmp_path / "source.cu"
    path.write_text(text)
    return read_signature(path, name)


def test_a_comment_may_be_in_any_encoding(tmp_path: Path) -> None:
    path = tmp_path / "source.cu"
    path.write_bytes(b'// \xa9 M\xfcller\nextern "C" __global__ void k(int n) {}\n')
    assert read_signature(path, "k").line == 2
    assert kernel_names(path) == ["k"]


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(KernelSourceError, match="cannot be read: Is a directory"):
        read_signature(tmp_path, "k")


def types(signature: Signature) -> list[tuple[str, str]]:
    return [(param.ctype, param.name) for param in signature.params]


@pytest.mark.parametrize(
    "declaration",
    [
        'extern "C" __global__ void k(float* y, const float* x, int n) {}',
        'extern "C" __global__ void __launch_bounds__(256) k(float* y, const float* x, int n) {}',
        'extern "C" __global__ __launch_bounds__(32 * (4 + 4), 2) void '
        "k(float*y,const float*x,int n){}",
        'extern "C"\n__global__\nvoid\nk(\n  float* y,  // [n]\n  const float* x,\n  int n)\n{\n}',
        'extern "C" __global__ void k(float *__restrict__ y, float const* __restrict__ x, int n)',
        'extern "C" __global__ void k(float* y, /* a, b) */ const float x[], int n /* ( */) {}',
        "template <int N> __global__ void helper(float4 v) {}\n"
        'extern "C" __global__ void k(float* __restrict y, const float* const x, int const n) {}',
        '// extern "C" __global__ void k(double old);\n/* extern "C" __global__ void k(int) */\n'
        'extern "C" __global__ void k(float* y, const float* x, int n) { char c = \'"\'; }',
        '#define K extern "C" __global__ void \\\n  k(double d)\n'
        'extern "C" __global__ static void k(float* y, const float* x, int n) {}',
        'extern "C" __global__ void k(float* y, const float* x, int n);\n'
        'extern "C" __global__ void k(float* __restrict__ y, const float* x, int n) {}',
    ],
)
def test_odd_formatting_reads_alike(tmp_path: Path, declaration: str) -> None:
    signature = read(tmp_path, f"#include <x.h>\nstatic __device__ int f(int a);\n{declaration}\n")
    assert types(signature) == [("float*", "y"), ("float*", "x"), ("int", "n")]
    assert [param.const for param in signature.params] == [False, True, False]
    assert [param.code for param in signature.params] == ["Q", "Q", "i"]


# Each begins with a word that means something in a declaration, or is one with more behind it.
WORDY = (
    "static_scale", "statics", "inline_scale", "inlined", "void_fill", "voided", "const_k",
    "extern_k", "volatile_k", "unsigned_sum", "struct_sum", "__inline__scale", "__static__k",
    "__global__k", "__restrict__k", "__launch_bounds__k",
)  # fmt: skip


@pytest.mark.parametrize("name", WORDY)
@pytest.mark.parametrize(
    "between",
    ["", "static", "inline", "static inline", "__noinline__", "__launch_bounds__(64, (1 + 1))"],
)
def test_a_name_may_begin_with_a_keyword(tmp_path: Path, name: str, between: str) -> None:
    """As a kernel's, and as a parameter's. Whatever stands in front of it is no part of it."""
    text = (
        f'extern "C" __global__ void {between} {name}(float* {name}, const float* const {name}_in,'
        f" unsigned {name}_n) {{}}\n"
        f'extern "C" __global__ {between} void last(int n) {{}}\n'
    )
    signature = read(tmp_path, text, name)
    assert kernel_names(tmp_path / "source.cu") == [name, "last"]
    assert types(signature) == [
        ("float*", name), ("float*", f"{name}_in"), ("unsigned", f"{name}_n")
    ]  # fmt: skip
    assert [param.const for param in signature.params] == [False, True, False]


@pytest.mark.parametrize(
    ("declared", "dtype", "code"),
    [
        ("float v", "float32", "f"),
        ("double v", "float64", "d"),
        ("int v", "int32", "i"),
        ("unsigned v", "uint32", "I"),
        ("unsigned int v", "uint32", "I"),
        ("int unsigned v", "uint32", "I"),
        ("uint32_t v", "uint32", "I"),
        ("std::uint32_t v", "uint32", "I"),
        ("long long v", "int64", "q"),
        ("long long int v", "int64", "q"),
        ("int64_t v", "int64", "q"),
        ("unsigned long long v", "uint64", "Q"),
        ("unsigned long long int v", "uint64", "Q"),
        ("long unsigned int long v", "uint64", "Q"),
        ("size_t v", "uint64", "Q"),
        ("uint64_t v", "uint64", "Q"),
        ("unsigned char v", "uint8", "B"),
        ("uint8_t v", "uint8", "B"),
        ("short v", "int16", "h"),
        ("bool v", "bool", "?"),
        ("__half v", "float16", "e"),
        ("half v", "float16", "e"),
        ("__nv_bfloat16 v", "uint16", "H"),
        ("const __half* v", "float16", "Q"),
        ("__nv_bfloat16* v", "uint16", "Q"),
        ("unsigned char* v", "uint8", "Q"),
        ("const float4* __restrict__ v", "float32", "Q"),
        ("float* const* v", "uint64", "Q"),
        ("unsigned long long* v", "uint64", "Q"),
    ],
)
def test_types(tmp_path: Path, declared: str, dtype: str, code: str) -> None:
    (param,) = read(tmp_path, f'extern "C" __global__ void k({declared}) {{}}').params
    assert (param.dtype, param.code) == (np.dtype(dtype), code)
    assert param.pointer == ("*" in declared)


@pytest.mark.parametrize("declared", ["void* v", "const Control* v", "struct Control* v"])
def test_pointers_to_what_numpy_does_not_know_are_unchecked(tmp_path: Path, declared: str) -> None:
    (param,) = read(tmp_path, f'extern "C" __global__ void k({declared}) {{}}').params
    assert param.pointer
    assert param.dtype is None


@pytest.mark.parametrize("empty", ["", "void", "  \n ", "/* none */"])
def test_no_parameters(tmp_path: Path, empty: str) -> None:
    assert read(tmp_path, f'extern "C" __global__ void k({empty}) {{}}').params == ()


@pytest.mark.parametrize("declared", ["Control c", "struct Control c", "float4 c", "A<int, 2> c"])
def test_struct_by_value_is_refused_with_its_place(tmp_path: Path, declared: str) -> None:
    with pytest.raises(KernelSourceError, match=r"source\.cu:3: kernel k: parameter c.*address"):
        read(tmp_path, f'\n\nextern "C" __global__ void k(int n, {declared}) {{}}')


def test_other_kernels_of_a_file_are_not_held_up(tmp_path: Path) -> None:
    text = 'extern "C" __global__ void bad(Big b) {}\nextern "C" __global__ void k(int n) {}'
    assert types(read(tmp_path, text)) == [("int", "n")]


def test_unreadable_parameter_is_refused(tmp_path: Path) -> None:
    with pytest.raises(KernelSourceError, match="cannot read the parameter"):
        read(tmp_path, 'extern "C" __global__ void k(float (*x)[4]) {}')
    with pytest.raises(KernelSourceError, match="cannot read the parameter"):
        read(tmp_path, 'extern "C" __global__ void k(float) {}')


def test_kernel_that_is_not_there_lists_those_that_are(tmp_path: Path) -> None:
    text = 'extern "C" __global__ void a(int n) {}\nextern "C" __global__ void b() {}'
    with pytest.raises(KernelSourceError, match=r"no kernel k .*it has a, b"):
        read(tmp_path, text)
    with pytest.raises(KernelSourceError, match="it has none"):
        read(tmp_path, "__global__ void k(int n) {}")  # a mangled name: not found by this one


def test_twin_declarations_must_agree(tmp_path: Path) -> None:
    text = 'extern "C" __global__ void k(int n);\nextern "C" __global__ void k(long long n) {}'
    with pytest.raises(KernelSourceError, match=r"source\.cu:2: kernel k differs from line 1"):
        read(tmp_path, text)


def test_not_void_and_not_closed(tmp_path: Path) -> None:
    with pytest.raises(KernelSourceError, match="must return void"):
        read(tmp_path, 'extern "C" __global__ int k(int n) {}')
    with pytest.raises(KernelSourceError, match="not closed"):
        read(tmp_path, 'extern "C" __global__ void k(int n')


def test_names_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "two.cu"
    path.write_text('extern "C" __global__ void b();\nextern "C" __global__ void a(int n) {}')
    assert kernel_names(path) == ["b", "a"]
    assert str(read_signature(path, "a")) == "a(int n)"


@pytest.mark.parametrize("ctype", ["float", "__nv_bfloat16", "int"])
def test_a_type_may_be_a_macro_of_the_command_line(tmp_path: Path, ctype: str) -> None:
    path = tmp_path / "source.cu"
    declared = 'extern "C" __global__ void k({0}* out, const {0}* __restrict__ x, int n) {{}}'
    path.write_text(declared.format("act_t"))
    spelled = tmp_path / "spelled.cu"
    spelled.write_text(declared.format(ctype))
    found = read_signature(path, "k", {"act_t": ctype})
    assert found.params == read_signature(spelled, "k").params
    assert read_signature(path, "k").params[0].dtype is None, "unchecked where nothing says it"
