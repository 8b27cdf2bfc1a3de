"""KernelImage: kernels of a loaded PTX, cubin or fat binary, with or without their source.

    image = library.load(Path("axpy.cubin"))
    axpy = image.kernel("axpy", source=Path("axpy.cu"))
    axpy = image.kernel("axpy", params="float* y, const float* x, float a, int n")
    axpy = image.kernel("axpy")     # sizes only: the first launch's arguments settle the types

An image tells how many parameters a kernel has and how many bytes each takes. Declared types are
held against that; without any the first launch has to say what it passes, exactly: an object with
`.address` is a pointer, np.float32(0.5) four bytes of float. From then on the kernel is as any.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lowgraph.driver import forked, module
from lowgraph.driver.launch import Size
from lowgraph.errors import ArgTypeError, ConfigError, KernelSourceError
from lowgraph.kernels import signature
from lowgraph.kernels.folder import near
from lowgraph.kernels.launch import Kernel
from lowgraph.kernels.signature import Param, Signature

__all__ = ["KernelImage", "SizedKernel", "hold_against", "parameter_places"]

# Struct letters by size: signed, unsigned.
_INTEGERS = {1: ("b", "B"), 2: ("h", "H"), 4: ("i", "I"), 8: ("q", "Q")}
_FLOATS = {2: "e", 4: "f", 8: "d"}
_MANGLED = ' (names that begin with _Z are of kernels without extern "C")'


class KernelImage:
    """See the module; made by `Library.load`, and loaded for the life of the process.

    title: of the image, for messages. file: that it was read from, None for bytes. module: handle.
    """

    def __init__(self, module_handle: int, title: str, file: Path | None) -> None:
        self.module = module_handle
        self.title = title
        self.file = file
        self._functions = module.functions(module_handle)
        self._kernels: dict[tuple[str, Path | None, str | None], Kernel | SizedKernel] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """Names of its kernels, as the linker knows them."""
        return tuple(self._functions)

    @property
    def kernels(self) -> tuple[Kernel | SizedKernel, ...]:
        """Those handed out so far."""
        return tuple(self._kernels.values())

    def kernel(
        self, name: str, *, source: str | Path | None = None, params: str | None = None
    ) -> Kernel | SizedKernel:
        """Return the kernel; the same arguments give the same object.

        source: the .cu file that declares it, params: its parameter list in C; one of the two, or
        none. Raises ConfigError for both; KernelSourceError for a kernel that the image has not,
        parameters that differ from the image's in number or size, and structs by value.
        """
        if source is not None and params is not None:
            raise ConfigError(f"kernel {name}: give its source or its params, not both")
        key = name, None if source is None else Path(source).absolute(), params
        found = self._kernels.get(key)
        if found is None:
            found = self._kernels[key] = self._make(*key)
        return found

    def _make(self, name: str, source: Path | None, params: str | None) -> Kernel | SizedKernel:
        handle = self._functions.get(name)
        if handle is None:
            raise KernelSourceError(
                f"{self.title} has no kernel {name}{near(name, self._functions)}"
                f"{_MANGLED if any(map(_is_mangled, self._functions)) else ''}"
            )
        module.get_function(self.module, name)  # its name is known to the gate from now on
        if source is not None:
            declared = signature.read_signature(source, name)
        elif params is not None:
            declared = signature.declared(name, params, self.file)
        else:
            return SizedKernel(name, handle, self.title, self.file)
        kernel = Kernel(declared, handle)
        hold_against(kernel, self.title)
        return kernel

    def __repr__(self) -> str:
        """Return the title and the kernels."""
        return f"<KernelImage {self.title}: {', '.join(self.names)}>"


class SizedKernel:
    """A kernel of which only the sizes of its parameters are known until its first launch.

    name, handle: as a Kernel's. sizes: bytes of each parameter.
    """

    def __init__(self, name: str, handle: int, title: str, file: Path | None) -> None:
        """Ask the driver for the sizes. Raises KernelSourceError for a struct by value."""
        self.name = name
        self.handle = handle
        self.sizes = tuple(size for _, size in parameter_places(handle))
        self._file = file
        self._typed: Kernel | None = None
        self._lock = forked.lock()
        for place, size in enumerate(self.sizes):
            if size not in _INTEGERS:
                raise KernelSourceError(
                    f"{title}: parameter {place} of {name} has {size} bytes, a struct by value: "
                    "only numbers and pointers are passed; put it into device memory and pass its "
                    "address"
                )

    def __call__(self, stream: int, grid: Size, block: Size, *args: Any, shared: int = 0) -> None:
        """Launch, as a Kernel does. The first call settles the parameters' types.

        Raises ArgTypeError for a count or a size that differs from the image's.
        """
        with self._lock:
            if self._typed is None:
                self._typed = Kernel(self._settled(args), self.handle)
        self._typed(stream, grid, block, *args, shared=shared)

    def _settled(self, args: Sequence[Any]) -> Signature:
        if len(args) != len(self.sizes):
            listed = ", ".join(map(str, self.sizes))
            wanted = f"{len(self.sizes)} arguments (of {listed} bytes)"
            raise ArgTypeError(self.name, "the call", wanted, str(len(args)))
        given = enumerate(zip(args, self.sizes, strict=True))
        params = tuple(_settle(self.name, place, *pair) for place, pair in given)
        return Signature(self.name, params, self._file, 0)

    def __repr__(self) -> str:
        """Return the name and the sizes."""
        return f"<SizedKernel {self.name}: parameters of {self.sizes} bytes>"


def _is_mangled(name: str) -> bool:
    return name.startswith("_Z")


def parameter_places(function: int) -> list[tuple[int, int]]:
    """Each parameter's (offset, size) in bytes, as the driver knows them."""
    found: list[tuple[int, int]] = []
    while (place := module.param_info(function, len(found))) is not None:
        found.append(place)
    return found


def _settle(kernel: str, place: int, value: Any, size: int) -> Param:
    """What a parameter is, by the argument that it is given first."""
    name = f"argument {place}"
    if hasattr(value, "address"):
        if size == 8:
            return Param(name, "void*", None, True, False, "Q")
        raise ArgTypeError(kernel, name, f"{size} bytes", "an address, which has 8")
    if isinstance(value, (np.number, np.bool_)) and value.dtype.itemsize != size:
        raise ArgTypeError(kernel, name, f"{size} bytes", f"{value.dtype} {value}")
    code = _code(value, size)
    if code is None:
        raise ArgTypeError(
            kernel, name, f"{size} bytes of a type that the image does not tell",
            f"{type(value).__name__} {value!r}: say it by a NumPy number (np.float32), by an "
            "object with .address, or give the kernel's source or params",
        )  # fmt: skip
    dtype = np.dtype(code)
    return Param(name, dtype.name, dtype, False, False, code)


def _code(value: Any, size: int) -> str | None:
    """The struct letter of a number; None where the size leaves it open."""
    if isinstance(value, (bool, np.bool_)):
        return "?" if size == 1 else None
    if isinstance(value, np.floating):
        return _FLOATS.get(size)
    if isinstance(value, (int, np.integer)):
        signed, unsigned = _INTEGERS[size]
        fits = -(1 << 8 * size - 1) <= int(value) < 1 << 8 * size - 1
        return unsigned if isinstance(value, np.unsignedinteger) or not fits else signed
    return None


def hold_against(kernel: Kernel, title: str) -> None:
    """Raise KernelSourceError where the declared parameters are not those of the code itself."""
    found, declared = parameter_places(kernel.handle), kernel.pack.layout
    told = f"{kernel.signature} as declared does not fit {title}"
    if len(found) != len(declared):
        raise KernelSourceError(
            f"{told}: {len(declared)} parameters, the image's kernel has {len(found)}"
        )
    for param, ours, theirs in zip(kernel.signature.params, declared, found, strict=True):
        if ours != theirs:
            raise KernelSourceError(
                f"{told}: {param.ctype} {param.name} is {ours[1]} bytes at {ours[0]}, the image's "
                f"is {theirs[1]} at {theirs[0]}"
            )
