"""Compile every kernel of kernels_cu for the GPU with NVRTC: no driver and no GPU are needed.

    python tools/compile_kernels.py [--arch sm_80,sm_90] [FILE.cu ...]

Prints a line for each image; exits with 1 if any does not compile.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from lowgraph.driver import compiler
from lowgraph.errors import BuildError, KernelSourceError
from lowgraph.kernels import signature, source

# Files that take defines, with those to try: head sizes of the presets, widths, types.
_TYPES = ({"act_t": "float"}, {"act_t": "__nv_bfloat16"})
_NARROW_BIAS = {"act_t": "__nv_bfloat16", "bias_t": "__nv_bfloat16"}
DEFINES = {
    "adamw.cu": [{"EMA": ema, "SHADOW": shadow} for ema in ("0", "1") for shadow in ("0", "1")],
    "attention.cu": [{"HEAD_SIZE": size, **kind} for size in ("16", "32") for kind in _TYPES],
    "attention_mma.cu": [{"HEAD_SIZE": size} for size in ("16", "32", "64", "128")],
    "gemm_mma.cu": [
        {"TILE_M": rows, "TILE_N": columns}
        for rows, columns in (("128", "64"), ("64", "64"), ("32", "64"), ("32", "32"))
    ],
    "gemm_mma_norm.cu": [{"TILE_M": rows} for rows in ("16", "32")],
    **{
        f"{name}.cu": [{"SQUARE_TF32": rounds} for rounds in ("0", "1")]
        for name in ("ssd_short", "ssd_short_backward")
    },
    **{
        f"{name}.cu": [{"ROW_LANES": lanes, **kind} for lanes in ("16", "32") for kind in _TYPES]
        for name in ("layernorm", "layernorm_backward")
    },
    "gated_loop.cu": [{"LOOP_TF32": rounds} for rounds in ("0", "1")],
    "conv1d.cu": [{"CONV_WIDTH": width} for width in ("1", "4", "8")],
    "gemm.cu": [
        *({**kind, "out_t": "float"} for kind in _TYPES),
        {"act_t": "__nv_bfloat16", "out_t": "__nv_bfloat16"},
        {"ROUND_TF32": "1"},
    ],
    **{f"{name}.cu": [*_TYPES, _NARROW_BIAS] for name in ("bias", "gelu", "relu")},
    **{
        f"{name}.cu": list(_TYPES)
        for name in (
            "cast",
            "cross_entropy",
            "cross_entropy_wide",
            "gated_norm",
            "gated_update",
            "rms_norm",
        )
    },
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", type=Path, help="default: all of kernels_cu")
    parser.add_argument("--arch", default="sm_80,sm_90")
    arguments = parser.parse_args()
    archs = arguments.arch.split(",")
    paths = arguments.files or sorted(source.kernels_folder().rglob("*.cu"))
    try:
        print("NVRTC {}.{}".format(*compiler.version()), flush=True)
        with ProcessPoolExecutor(os.cpu_count()) as pool:  # NVRTC uses one core
            sound = pool.map(partial(_compiles, archs=archs), [path.resolve() for path in paths])
            failures = [path for path, good in zip(paths, sound, strict=True) if not good]
    except (BuildError, KernelSourceError) as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{len(paths) - len(failures)} of {len(paths)} files compile for {arguments.arch}")
    return 1 if failures or not paths else 0


def _compiles(path: Path, archs: list[str]) -> bool:
    """Compile one file for each architecture, reading the signature of each of its kernels."""
    kernels = signature.kernel_names(path)
    for name in kernels:
        signature.read_signature(path, name)
    sound = bool(kernels)
    for arch, defines in itertools.product(archs, DEFINES.get(path.name, [{}])):
        begin = time.perf_counter()
        try:
            image = compiler.compile_cubin(path, arch, source.include_dirs(path), defines)
        except BuildError as error:
            print(error, file=sys.stderr, flush=True)
            sound = False
            continue
        seconds = time.perf_counter() - begin
        label = " ".join([path.name, *(f"{key}={value}" for key, value in defines.items())])
        print(
            f"{label:28} {arch} {len(kernels)} kernels {len(image)} bytes {seconds:.2f} s",
            flush=True,
        )
    return sound


if __name__ == "__main__":
    sys.exit(main())
