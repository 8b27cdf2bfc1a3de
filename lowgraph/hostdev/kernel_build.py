"""Compiles a .cu file for the host device: device-only CUDA C in, a loadable ELF image out.

The compiler's own preprocessor runs first, with include/cuda_on_host.h in front of the file, so
that macros, conditionals and included files are settled before this front end looks. It then does
the two things that plain C++ cannot express, on the marks which that header leaves:

* `extern __shared__ T name[];` becomes a pointer to the block's dynamic shared memory;
* each `extern "C" __global__ void name(...)` gets a table entry, exported as
  `lowgraph_kernel_<name>` (struct KernelEntry in include/cuda_on_host/abi.h).

A mark that fits neither form is an error with its file and line; nothing is skipped.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from lowgraph.errors import BuildError
from lowgraph.hostdev import check
from lowgraph.hostdev.assembly import add_red_zones
from lowgraph.hostdev.diagnostics import at_users_line
from lowgraph.hostdev.front_end import translate
from lowgraph.hostdev.image import facts_text, fill_static_shared
from lowgraph.hostdev.local_arrays import mark_local_arrays
from lowgraph.hostdev.settings import is_debug
from lowgraph.hostdev.toolchain import (
    INCLUDE_DIR,
    Compiler,
    cpu_key,
    cuda_include_dirs,
    find_compiler,
    run_compiler,
)

# -march=native: without FMA instructions fmaf is a library call, 10x slower. -ffp-contract=fast is
# nvcc's default too. -fstack-clash-protection: a big frame touches every page, so it cannot step
# over the guard page of its stack.
_COMPILE_FLAGS = (
    "-std=c++20",
    "-gdwarf-4",  # read by src/line_table.cpp
    "-march=native",
    "-fPIC",
    "-ffp-contract=fast",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fno-strict-aliasing",
    "-fstack-clash-protection",
    "-w",
)
# -O3 is slower with g++ (matrix products 2x). -g1: a fault names the line of its access.
_FAST_FLAGS = ("-O2", "-g1")
_DEBUG_FLAGS = ("-O0", "-g")
# -fno-gnu-unique: else a __shared__ variable of a template is one variable across all images.
_GCC_FLAGS = ("-fno-gnu-unique", "-fno-plt")
_SHARED_TAIL = INCLUDE_DIR / "cuda_on_host" / "shared_tail.cpp"
_LINK_FLAGS = ("-shared", "-Wl,-Bsymbolic", "-Wl,-z,now")

# The check build: a call before each access, which include/cuda_on_host/check_hooks.h defines; no
# runtime of the compiler's is linked. -O1 without the passes that move a load to where the source
# has none: it would be reported there.
_CHECK_FLAGS = (
    "-DLOWGRAPH_CHECK",
    "-O1",
    "-fno-optimize-sibling-calls",  # a tail call would have its caller's caller for a place
    "-fdata-sections",
    "-fsanitize=thread,alignment,bounds-strict",
)
_GCC_CHECK_FLAGS = (
    "--param=tsan-instrument-func-entry-exit=0",
    "--param=tsan-distinguish-volatile=1",
    "-fno-tree-loop-im",
    "-fno-tree-sink",
    "-fno-if-conversion",
    "-fno-if-conversion2",
)
_CLANG_CHECK_FLAGS = (
    "-mllvm",
    "-tsan-instrument-func-entry-exit=0",
    "-mllvm",
    "-tsan-distinguish-volatile=1",
)
_WRAPPED = ("memcpy", "memmove", "memset", "malloc", "free")
_CHECK_LINK_FLAGS = tuple(f"-Wl,--wrap={name}" for name in _WRAPPED)


def compile(
    source: Path,
    include_dirs: Sequence[Path],
    defines: Mapping[str, str],
    options: Sequence[str] = (),
    checks: bool | None = None,
) -> bytes:
    """Compiles the kernels of `source` and returns the bytes of an ELF shared object.

    `include_dirs` are searched for quoted and angled includes after the file's own folder;
    `defines` become preprocessor macros; `options` are more flags of the compiler; `checks`
    asks for the check build, None as the process itself does. Raises BuildError: no compiler, no
    CUDA headers, a compile error, or a kernel that the front end cannot read (message starts with
    file:line).
    """
    checks = check.enabled() if checks is None else checks
    source = Path(source).resolve()
    if not source.is_file():
        raise BuildError(f"{source}: no such kernel source file")
    own = compile_flags(find_compiler(), checks)
    flags = [*own, *options]
    search = [f"-I{folder}" for folder in (INCLUDE_DIR, *include_dirs, *cuda_include_dirs())]
    macros = [f"-D{name}={value}" for name, value in sorted(defines.items())]
    header = ["-include", str(INCLUDE_DIR / "cuda_on_host.h")]
    what = f"compiling {source.name} for the host device"
    text = run_compiler([*flags, *search, *macros, *header, "-E", "-x", "c++", str(source)], what)
    unit = translate(text, source)
    with tempfile.TemporaryDirectory(prefix="lowgraph-") as folder:
        generated, image = Path(folder, source.stem + ".ii"), Path(folder, source.stem + ".so")
        generated.write_text(unit.text + facts_text(source, checks))
        try:
            _link(flags, own, generated, image, what, checks)
        except BuildError as error:
            raise at_users_line(error) from None
        return fill_static_shared(image.read_bytes(), unit.kernels)


def _link(
    flags: list[str], own: list[str], generated: Path, image: Path, what: str, checks: bool
) -> None:
    """Compile with all flags, by way of assembly text; link with none of them.

    The text gets the red zones and, for the check build, the names of local arrays.

    What is linked with -ffast-math lets the thread that loads it flush small numbers to 0, in all
    of the program. The tail comes last: thread-local memory is laid out in the order of linking.
    """
    assembly, tail = generated.with_suffix(".s"), image.with_suffix(".tail.o")
    run_compiler([*flags, "-S", "-x", "c++", str(generated), "-o", str(assembly)], what)
    text = assembly.read_text()
    if checks:
        text = mark_local_arrays(text, generated.read_text())
    assembly.write_text(add_red_zones(text))
    run_compiler([*own, "-c", "-x", "c++", str(_SHARED_TAIL), "-o", str(tail)], what)
    more = _CHECK_LINK_FLAGS if checks else ()
    inputs = ["-x", "assembler", str(assembly), "-x", "none", str(tail)]
    run_compiler([*_LINK_FLAGS, *more, *inputs, "-o", str(image)], what)


def compile_flags(compiler: Compiler, checks: bool) -> list[str]:
    """The flags that kernels are compiled with by this compiler, now.

    They depend on $LOWGRAPH_HOST_DEBUG, and on whether it is for the check build.
    """
    level = _DEBUG_FLAGS if is_debug() else _FAST_FLAGS
    flags = [*_COMPILE_FLAGS, *level, *(() if compiler.is_clang else _GCC_FLAGS)]
    if checks:
        flags += [*_CHECK_FLAGS, *(_CLANG_CHECK_FLAGS if compiler.is_clang else _GCC_CHECK_FLAGS)]
    return flags


def compiler_key() -> str:
    """What a kernel image depends on besides its source and defines.

    The hexadecimal hash of compiler version, flags, CPU, and the headers and front end here: an
    image cached under another key must not be loaded.
    """
    compiler = find_compiler()
    facts = [
        compiler.version,
        *compile_flags(compiler, check.enabled()),
        *_LINK_FLAGS,
        cpu_key(),
        _own_sources(),
    ]
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:32]


@lru_cache
def _own_sources() -> str:
    digest = hashlib.sha256()
    here = Path(__file__).parent
    headers = sorted(path for path in INCLUDE_DIR.rglob("*") if path.is_file())
    front_end = ("kernel_build", "front_end", "refusals", "image", "assembly", "local_arrays")
    for path in (*headers, *(here / f"{name}.py" for name in front_end)):
        digest.update(path.read_bytes())
    return digest.hexdigest()
