"""DLPack: arrays of other libraries as address, shape and dtype, and memory of ours as theirs.

The structures are those of dlpack.h 1.0; both kinds of capsule are read and made. No copy is made
and nothing waits. NumPy has no bfloat16: its elements are read as uint16, their bits.
"""

from __future__ import annotations

import ctypes
import math
import sys
from typing import Any, NamedTuple

import numpy as np

from lowgraph.errors import ConfigError
from lowgraph.precision import BFLOAT16

__all__ = ["DLPACK_VERSION", "Exported", "Lent", "is_dense", "lend", "read_array"]

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

# Who drops an array may have an exception under way, which Python code that runs then would lose,
# be a thread without the GIL, or the end of the process, behind Python's own. So a capsule has no
# destructor, and its deleter is a function of the C library that no state of these can hurt: time()
# writes the seconds into the eight bytes that its pointer leads to, the version or the address
# until then. Whether that has happened is looked at later.
_DELETER_AT = ctypes.cast(ctypes.CDLL(None).time, ctypes.c_void_p).value
_new_memory = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t)(
    ("PyMem_RawCalloc", ctypes.pythonapi)
)
_free_memory = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(("PyMem_RawFree", ctypes.pythonapi))


class Lent:
    """A capsule that was handed out, until its user has let go of it: see `is_over`.

    The structures behind it are not Python's: arrays that outlive the interpreter still reach them.
    """

    def __init__(self, pointer: int, kind: bytes) -> None:
        self._pointer = pointer
        self._kind = kind
        self._mark = ctypes.c_uint64.from_address(pointer)
        self._unmarked = self._mark.value
        self.capsule: object | None = _new(pointer, kind, None)

    def is_over(self) -> bool:
        """Whether nobody can reach the memory by it any more."""
        if not self._pointer:
            return True
        if self._mark.value == self._unmarked:
            if self.capsule is None or self.references() > _ALONE:
                return False
            if not _is_valid(self.capsule, self._kind):  # its user has taken the structures over
                self.capsule = None
                return False
        pointer, self._pointer = self._pointer, 0
        self.capsule = None
        _free_memory(pointer)
        return True

    def references(self) -> int:
        """Of the capsule, as the interpreter counts them."""
        return sys.getrefcount(self.capsule)


def _count_alone() -> int:
    sample = Lent.__new__(Lent)
    sample.capsule = object()
    return sample.references()


_ALONE = _count_alone()


def lend(
    address: int,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    place: tuple[int, int],
    *,
    versioned: bool,
) -> Lent:
    """A capsule over row-major memory, which has to stay until it is over.

    place: DLPack's device. versioned: of DLPack 1.0, which `max_version` asks for. Raises
    BufferError for a dtype that DLPack has not.
    """
    if dtype.kind not in _CODES or not dtype.isnative:
        raise BufferError(f"DLPack has no element type {dtype}")
    name = _NAMES[0] if versioned else _NAMES[1]
    layout = _LAYOUTS[name]
    sizes = (*shape, *_steps(shape))
    pointer = _new_memory(1, ctypes.sizeof(layout) + 8 * len(sizes))
    if not pointer:
        raise MemoryError
    managed, first = layout.from_address(pointer), pointer + ctypes.sizeof(layout)
    (ctypes.c_int64 * len(sizes)).from_address(first)[:] = list(sizes)
    if isinstance(managed, _Versioned):
        managed.major, managed.minor = DLPACK_VERSION
    tensor = managed.tensor
    tensor.data = address
    tensor.device = _Device(*place)
    tensor.ndim = len(shape)
    tensor.dtype = _Dtype(_CODES[dtype.kind], 8 * dtype.itemsize, 1)
    tensor.shape = ctypes.cast(first, ctypes.POINTER(ctypes.c_int64))
    tensor.strides = ctypes.cast(first + 8 * len(shape), ctypes.POINTER(ctypes.c_int64))
    managed.deleter = _DELETER_AT
    return Lent(pointer, name)


def _steps(shape: tuple[int, ...]) -> list[int]:
    return [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
