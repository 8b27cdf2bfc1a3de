"""DLPack: arrays of other libraries as address, shape and dtype, and memory of ours as theirs.

The structures are those of dlpack.h 1.0; both kinds of capsule are read and made. No copy is made
and nothing waits. NumPy has no bfloat16: its elements are read as uint16, their bits.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from lowgraph.errors import ConfigError
from lowgraph.precision import BFLOAT16

__all__ = ["DLPACK_VERSION", "Exported", "capsule_of", "is_dense", "read_array"]

DLPACK_VERSION = (1, 0)
_NAMES = (b"dltensor_versioned", b"dltensor")
_CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}  # DLDataTypeCode by NumPy's kind
_KINDS = {code: kind for kind, code in _CODES.items()}
_BFLOAT = 4
_STREAMED = (2, 10, 13)  # CUDA, ROCm, CUDA managed: the producer is told the consumer's stream
_NO_WAIT = -1


class _Device(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int32), ("id", ctypes.c_int32)]


class _Dtype(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("ndim", ctypes.c_int32),
        ("dtype", _Dtype),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),  # of elements; null: row-major
        ("byte_offset", ctypes.c_uint64),
    ]


class _Managed(ctypes.Structure):
    _fields_ = [("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class _Versioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    ]


_LAYOUTS: dict[bytes, type[_Managed] | type[_Versioned]] = dict(
    zip(_NAMES, (_Versioned, _Managed), strict=True)
)

# Prototypes of our own: those of ctypes.pythonapi are shared by every user of it in the process.
_new = ctypes.PYFUNCTYPE(
    ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p
)(("PyCapsule_New", ctypes.pythonapi))  # fmt: skip
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_IsValid", ctypes.pythonapi)
)
_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
# The same two by address, for a capsule that is being destroyed: a reference would revive it.
_is_valid_at = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_IsValid", ctypes.pythonapi)
)
_pointer_at = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


# ---- theirs ----


class Exported(NamedTuple):
    """What another library exports: where it lies, and the capsule, which keeps it there.

    address: 0 if it has no memory. place: DLPack's device, (type, id). dense: row-major.
    """

    address: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    place: tuple[int, int]
    dense: bool
    capsule: object


def read_array(array: Any, name: str, stream: int | None = None) -> Exported:
    """Read an array that has `__dlpack__` and `__dlpack_device__`.

    stream: CUDA stream that is to use it, whose later work the producer makes wait for its own; by
    default nothing waits. Raises ConfigError when it cannot be exported or its dtype read.
    """
    try:
        kind, ordinal = map(int, array.__dlpack_device__())
        capsule = _ask(array, kind, stream)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise ConfigError(
            f"{name!r}: {type(array).__name__} cannot be shared by DLPack: {error}"
        ) from error
    tensor = _tensor_of(capsule, name)
    shape = tuple(tensor.shape[axis] for axis in range(tensor.ndim))
    strides = tuple(tensor.strides[axis] for axis in range(tensor.ndim)) if tensor.strides else None
    address = tensor.data + tensor.byte_offset if tensor.data else 0
    dense = strides is None or is_dense(shape, strides, 1)
    dtype = _dtype_of(tensor.dtype, name)
    return Exported(address, shape, dtype, (kind, ordinal), dense, capsule)


def _ask(array: Any, kind: int, stream: int | None) -> object:
    told = {"stream": _NO_WAIT if stream is None else stream} if kind in _STREAMED else {}
    try:
        return array.__dlpack__(max_version=DLPACK_VERSION, **told)
    except TypeError:  # a producer from before 1.0
        return array.__dlpack__(**told)


def _tensor_of(capsule: object, name: str) -> _Tensor:
    for kind, layout in _LAYOUTS.items():
        if _is_valid(capsule, kind):
            managed = layout.from_address(_pointer(capsule, kind))
            major = getattr(managed, "major", DLPACK_VERSION[0])
            if major != DLPACK_VERSION[0]:
                raise ConfigError(f"{name!r} speaks DLPack {major}, lowgraph 1: update one of them")
            return managed.tensor
    raise ConfigError(f"{name!r}: __dlpack__ returned {type(capsule).__name__}, no DLPack capsule")


def _dtype_of(dtype: _Dtype, name: str) -> np.dtype[Any]:
    code, bits = int(dtype.code), int(dtype.bits)
    if dtype.lanes == 1 and code == _BFLOAT and bits == 16:
        return BFLOAT16
    if dtype.lanes == 1 and code in _KINDS and bits % 8 == 0:
        try:
            return np.dtype(f"{_KINDS[code]}{bits // 8}")
        except TypeError:
            pass
    raise ConfigError(
        f"{name!r}: DLPack element type (code {code}, {bits} bits, {dtype.lanes} lanes) has no "
        "NumPy dtype; view it as integers of its size first"
    )


def is_dense(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> bool:
    """Whether strides, in units of which `itemsize` make an element, are row-major."""
    if 0 in shape:
        return True
    dense = (math.prod(shape[axis + 1 :]) * itemsize for axis in range(len(shape)))
    pairs = zip(shape, strides, dense, strict=True)
    return all(size == 1 or given == wanted for size, given, wanted in pairs)


# ---- ours ----


class _Loan:
    """The structures behind one capsule, alive until its user calls the deleter."""

    def __init__(self, managed: _Managed | _Versioned, sizes: Any, end: Callable[[], None]) -> None:
        self.managed, self.sizes, self.end = managed, sizes, end


_loans: dict[int, _Loan] = {}


def _end(pointer: int, loans: dict[int, _Loan] = _loans) -> None:
    loan = loans.pop(pointer, None)
    if loan is not None:
        loan.end()


def _unused(capsule: int, names: tuple[bytes, ...] = _NAMES, end: Any = _end) -> None:
    """What destroys a capsule that nobody took over; one that was has another name by then."""
    for name in names:
        if _is_valid_at(capsule, name):
            end(_pointer_at(capsule, name))


_DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(_end)
_DESTRUCTOR = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(_unused)
_DELETER_AT = ctypes.cast(_DELETER, ctypes.c_void_p).value
_DESTRUCTOR_AT = ctypes.cast(_DESTRUCTOR, ctypes.c_void_p).value


def capsule_of(
    address: int,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    place: tuple[int, int],
    *,
    versioned: bool,
    end: Callable[[], None],
) -> object:
    """A capsule over row-major memory; `end` is called once, by any thread, when it is let go of.

    place: DLPack's device. versioned: of DLPack 1.0, which `max_version` asks for. Raises
    BufferError for a dtype that DLPack has not.
    """
    if dtype.kind not in _CODES or not dtype.isnative:
        raise BufferError(f"DLPack has no element type {dtype}")
    name = _NAMES[0] if versioned else _NAMES[1]
    managed = _LAYOUTS[name]()
    if isinstance(managed, _Versioned):
        managed.major, managed.minor = DLPACK_VERSION
    sizes = (ctypes.c_int64 * max(2 * len(shape), 1))(*shape, *_steps(shape))
    first = ctypes.addressof(sizes)
    tensor = managed.tensor
    tensor.data = address
    tensor.device = _Device(*place)
    tensor.ndim = len(shape)
    tensor.dtype = _Dtype(_CODES[dtype.kind], 8 * dtype.itemsize, 1)
    tensor.shape = ctypes.cast(first, ctypes.POINTER(ctypes.c_int64))
    tensor.strides = ctypes.cast(first + 8 * len(shape), ctypes.POINTER(ctypes.c_int64))
    managed.deleter = _DELETER_AT
    pointer = ctypes.addressof(managed)
    _loans[pointer] = _Loan(managed, sizes, end)
    return _new(pointer, name, _DESTRUCTOR_AT)


def _steps(shape: tuple[int, ...]) -> list[int]:
    return [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
