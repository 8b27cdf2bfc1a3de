"""Check an environment of the extra cuda12: what it brings is importable and of one CUDA version.

A machine without a GPU can check no more; the cuBLAS library itself is opened on the host device,
whose libcuda answers the version question that nvmath-python asks first.
"""

from __future__ import annotations

import importlib.metadata
import sys


def main() -> int:
    """Import each piece, print its version, and fail on any that is not CUDA 12's."""
    import cupy
    from cuda.bindings import nvrtc
    from nvmath.bindings import cublas, cublasLt

    from lowgraph.driver import open_device

    versions = {name: importlib.metadata.version(name) for name in ("cuda-bindings", "cuda-python")}
    versions["cupy"] = cupy.__version__
    versions["cupy's CUDA"] = str(cupy.cuda.runtime.runtimeGetVersion())
    versions["nvmath-python"] = importlib.metadata.version("nvmath-python")
    versions["nvrtc"] = ".".join(str(part) for part in nvrtc.nvrtcVersion()[1:])
    open_device("host")
    versions["cublas"] = ".".join(str(cublas.get_property(part)) for part in range(3))
    versions["cublasLt"] = str(cublasLt.get_version())
    for name, version in versions.items():
        print(f"{name:14} {version}")
    wrong = [name for name, version in versions.items()
             if name in ("cuda-bindings", "cuda-python", "cupy's CUDA", "nvrtc", "cublas")
             and not version.startswith("12")]  # fmt: skip
    if wrong:
        print(f"not of CUDA 12: {', '.join(wrong)}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
