"""Launch arguments packed by their declared types into storage made once.

Packing is one `struct` call for all arguments. Only when that fails are they looked at one by one,
to name the one that does not fit.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from cuda.bindings import driver

from lowgraph.errors import ArgTypeError
from lowgraph.kernels.signature import Param, Signature

# What `struct` raises; TypeError and ValueError are those of a value's own __float__ or __index__.
_UNFIT = (struct.error, OverflowError, TypeError, ValueError)


class ArgumentPack:
    """Storage for one kernel's arguments, and the array of pointers to them that a launch takes.

    names: the parameters' names. layout: each parameter's (offset, size) in bytes.
    address: of the pointer array.
    """

    def __init__(self, signature: Signature) -> None:
        """Lay out the parameters as C does and make the storage."""
        self.kernel = signature.name
        self.params = signature.params
        self.names = tuple(param.name for param in self.params)
        self.layout, self._packer = _layout(self.params)
        self._storage = (ctypes.c_ubyte * max(self._packer.size, 1))()
        base = ctypes.addressof(self._storage)
        places = [base + offset for offset, _ in self.layout]
        self._pointers = (ctypes.c_void_p * max(len(places), 1))(*places)
        self.address = ctypes.addressof(self._pointers)
        # What `values` has to look at: pointers, and the few kinds that `struct` takes wrongly.
        numbered = list(enumerate(self.params))
        self._pointees = [(index, param.dtype) for index, param in numbered if param.pointer]
        self._converters = [
            (index, convert)
            for index, param in numbered
            if (convert := _converter(self.kernel, param)) is not None
        ]

    def values(self, args: Sequence[Any]) -> list[Any]:
        """Return the arguments as numbers: addresses for pointers. Raises ArgTypeError."""
        if len(args) != len(self.names):
            wanted = f"{len(self.names)} arguments ({', '.join(self.names)})"
            raise ArgTypeError(self.kernel, "the call", wanted, str(len(args)))
        values = list(args)
        for index, dtype in self._pointees:
            value = values[index]
            if type(value) is int:  # not bool: True is no address
                continue
            if getattr(value, "dtype", None) is dtype and hasattr(value, "address"):
                values[index] = value.address
            else:
                values[index] = self._address(self.params[index], value)
        for index, convert in self._converters:
            values[index] = convert(values[index])
        return values

    def _address(self, param: Param, value: Any) -> int:
        """Return the address of an argument that is not the plain case."""
        address = getattr(value, "address", None)
        if address is not None:
            dtype = getattr(value, "dtype", param.dtype)
            if param.dtype is None or dtype == param.dtype:
                return int(address)
            given = f"a {_kind(value)} of {dtype}{_label(value)}"
            raise ArgTypeError(self.kernel, param.name, f"{param.dtype} elements", given)
        if isinstance(value, np.ndarray):
            advice = "upload it to a slice first (lowgraph.memory.upload)"
            raise misfit(self.kernel, param, value, f"a NumPy array of {value.dtype}: {advice}")
        if isinstance(value, (np.integer, driver.CUdeviceptr)):
            return int(value)
        raise misfit(self.kernel, param, value)

    def store(self, values: Sequence[Any]) -> None:
        """Write what `values` returned into the storage. Raises ArgTypeError on type and range."""
        try:
            self._packer.pack_into(self._storage, 0, *values)
        except _UNFIT:
            checked = [self._checked(*pair) for pair in zip(self.params, values, strict=True)]
            self._packer.pack_into(self._storage, 0, *checked)

    def bytes_of(self, index: int) -> bytes:
        """Return what the storage holds for parameter `index`."""
        offset, size = self.layout[index]
        return bytes(self._storage[offset : offset + size])

    def _checked(self, param: Param, value: Any) -> Any:
        """Return a value that packs alone, or raise the error that names it."""
        if isinstance(value, np.bool_):  # no integer to `struct`, unlike Python's bool
            value = bool(value)
        try:
            struct.pack("=" + param.code, value)
        except _UNFIT:
            raise misfit(self.kernel, param, value) from None
        return value


def _layout(params: Sequence[Param]) -> tuple[list[tuple[int, int]], struct.Struct]:
    """Return each parameter's (offset, size), each aligned to its size as C does, and a packer."""
    places: list[tuple[int, int]] = []
    text, end = "=", 0
    for param in params:
        size = struct.calcsize("=" + param.code)
        padding = -end % size
        text += "x" * padding + param.code
        places.append((end + padding, size))
        end += padding + size
    return places, struct.Struct(text)


def _converter(kernel: str, param: Param) -> Callable[[Any], Any] | None:
    """Return what makes an argument packable, None where `struct` checks and takes it as it is."""
    if param.code == "?":
        return partial(_truth, kernel, param)
    return _bfloat16_bits if param.ctype in ("__nv_bfloat16", "nv_bfloat16") else None


def _truth(kernel: str, param: Param, value: Any) -> bool:
    """Return a bool; raises ArgTypeError for what is none, whose truth `struct` would take."""
    if isinstance(value, (bool, np.bool_)) or (type(value) is int and value in (0, 1)):
        return bool(value)
    raise misfit(kernel, param, value)


def _bfloat16_bits(value: Any) -> Any:
    """Return a number's bfloat16 bits, rounded to nearest even; what is no number stays itself."""
    if not isinstance(value, (int, float, np.number)):
        return value
    if np.isnan(value):
        return 0x7FC0
    bits = int(np.float32(value).view(np.uint32))
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16


def misfit(kernel: str, param: Param, value: Any, given: str = "") -> ArgTypeError:
    """Return the error for a value that does not fit a parameter."""
    if param.pointer:
        element = "" if param.dtype is None else f" (elements {param.dtype})"
        wanted = f"{param.ctype}{element}: an address, or an object with .address; 0 for null"
    else:
        wanted = f"a value of {param.ctype}"
    text = repr(value)
    short = text if len(text) <= 40 else f"{text[:37]}..."
    return ArgTypeError(kernel, param.name, wanted, given or f"{type(value).__name__} {short}")


def _kind(value: Any) -> str:
    kind = type(value).__name__
    return "slice" if kind == "Slice" else kind


def _label(value: Any) -> str:
    name = getattr(value, "name", None)
    return "" if name is None else f" ({name!r})"
