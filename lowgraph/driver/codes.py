"""Names and meanings of CUresult codes, for when the driver cannot say them itself.

The driver's own sentence is preferred (gate.py); this table serves when there is no driver, when it
is too broken to ask, or when the code is newer than the installed bindings.
"""

from __future__ import annotations

from cuda.bindings import driver

from lowgraph.errors import CaptureError, ContextPoisoned, DriverError, OutOfMemory

INVALID_CONTEXT = 201
NOT_READY = 600
OUTSIDE_TABLE = -1  # the bindings raised before a code could be read

STICKY: frozenset[int] = frozenset({700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 721})
"""Codes after which the driver gives the same answer to every later call of the process."""

_MEANINGS = {
    1: "a parameter is outside the range the call accepts",
    2: "not enough memory for the request",
    3: "the driver has not been initialised",
    4: "the driver is shutting down",
    46: "all devices are busy or unavailable",
    100: "no CUDA-capable device is present",
    101: "the device number does not exist",
    200: "the module image is damaged or of an unknown kind",
    201: "no context is current, or the context is gone",
    209: "the image holds no code for this device",
    218: "PTX could not be compiled by the driver",
    222: "the PTX is newer than the driver",
    300: "the source is not valid",
    301: "a file was not found",
    400: "the handle does not exist",
    401: "the object is in a state that does not allow this call",
    500: "the name was not found",
    600: "the work has not finished yet",
    700: "a kernel touched memory that is not its to touch",
    701: "the launch asks for more resources (registers, shared memory, threads) than there are",
    702: "a kernel ran past the time limit",
    709: "the context was destroyed",
    710: "a kernel hit a failing assert",
    714: "hardware stack error",
    715: "a kernel ran an illegal instruction",
    716: "a kernel used a misaligned address",
    717: "an instruction was used on the wrong address space",
    718: "the program counter left the code",
    719: "a kernel failed for an unspecified reason",
    720: "too many blocks for a cooperative launch",
    721: "a cluster or tensor memory operation failed",
    800: "the call is not permitted here",
    801: "the call is not supported here",
    803: "driver and libraries do not fit together",
    804: "forward compatibility is not available on this device",
    900: "the call is not permitted while a stream is capturing",
    901: "the capture was invalidated by an earlier error",
    902: "two captures would be merged",
    903: "the capture was begun elsewhere: this stream did not begin it",
    904: "a forked stream was not joined to the capture's first stream",
    905: "the capture would depend on work from outside it",
    906: "the legacy stream would depend implicitly on a capturing stream",
    907: "the event was last recorded in a capturing stream",
    908: "the capture was begun by another thread",
    909: "a wait timed out",
    910: "the executable graph cannot take this graph's changes",
    911: "a device outside the program failed",
    999: "unknown error",
}


def name_of(code: int) -> str:
    """Return the code's enumerator, e.g. "CUDA_ERROR_INVALID_VALUE"."""
    try:
        return str(driver.CUresult(code).name)
    except ValueError:  # a code newer than the installed bindings
        return "CUDA_ERROR_NOT_IN_THE_INSTALLED_BINDINGS"


def meaning_of(code: int) -> str:
    """Return a sentence for the code from the table above."""
    return _MEANINGS.get(code, "no description of this code is known")


def error_class(code: int) -> type[DriverError]:
    """Return the exception class of a code."""
    if code == 2:
        return OutOfMemory
    if 900 <= code <= 908:
        return CaptureError
    return ContextPoisoned if code in STICKY else DriverError
