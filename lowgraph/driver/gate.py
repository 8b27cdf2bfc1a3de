"""The one gate of every driver call: it checks the code and raises with the call's details.

`call(fn, *args)` returns the call's results without the code. `finished(fn, handle)` is for
queries: NOT_READY becomes False, anything else unforeseen is an error.

Hooks (module variables; None costs one comparison):

- `guard(name, args)` runs before the call and may raise to keep it from the driver;
- `observer(name, args, code)` runs after the call, whatever it answered (code -1: the bindings
  raised before a code could be read). A capture's journal sets both.

`teardown_lock` is the capture lock (captures.py): it is held around begin-capture, frees, destroys
and module unloads. After a sticky code no call is made any more (poison.py), and none by a thread
that runs a host function (callbacks.py). A 906 says which captures are open: it hits calls that
have nothing to do with them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from cuda.bindings import driver
from cuda.pathfinder import DynamicLibNotFoundError

from lowgraph import counters
from lowgraph.driver import callbacks, captures, codes, forked, poison
from lowgraph.errors import ContextPoisoned, DeviceUnavailable, DriverError, LowgraphError

Guard = Callable[[str, tuple[Any, ...]], None]
Observer = Callable[[str, tuple[Any, ...], int], None]

guard: Guard | None = None
observer: Observer | None = None

# The host device sets this: what its fault handler saw, for the text of a sticky error.
fault_text: Callable[[], str] | None = None

# Names of kernels by function handle, so that a failed launch can say which kernel it was.
function_names: dict[int, str] = {}

teardown_lock = captures.LOCK

_shut = poison.shut  # the one set, for as long as the process lives

_IMPLICIT = 906  # work of the legacy stream beside a capture on a blocking one

# What the bindings raise instead of returning a code: RuntimeError for a library or function that
# is not there, ValueError for an enum value they do not know, the others for unusable arguments.
_BINDING_ERRORS = (RuntimeError, ValueError, TypeError, OverflowError)


def call(fn: Callable[..., Any], *args: Any, nbytes: int | None = None) -> Any:
    """Call `fn(*args)`; return its results without the code: None, the one, or a tuple.

    `nbytes` is named in the error of an allocation or copy. Raises DriverError (OutOfMemory,
    CaptureError, ContextPoisoned by code) or DeviceUnavailable when there is no driver.
    """
    answer = _invoke(fn, args, nbytes)
    code = answer[0]
    if code:
        raise failure(fn.__name__, args, int(code), nbytes)
    if len(answer) == 1:
        return None
    return answer[1] if len(answer) == 2 else answer[1:]


def repeated(fn: Callable[..., Any], *args: Any) -> Callable[[], None]:
    """Return a function that is `call(fn, *args)`, made for calls that are made at every step.

    While no hook is set and no scope counts, nothing stands between it and the driver but the look
    at them: 0.5 us less than `call` (benchmarks/step_overhead.py). Not for calls that could break a
    capture of another thread, which `call` notes.
    """
    name, shut = fn.__name__, _shut

    def again() -> None:
        heard = guard is not None or observer is not None
        if heard or counters.active or shut:
            call(fn, *args)
            return
        try:
            code = fn(*args)[0]
        except _BINDING_ERRORS as error:
            raise _binding_failure(name, args, error, None) from error
        if code:
            raise failure(name, args, int(code), None)

    return again


def finished(fn: Callable[..., Any], handle: Any) -> bool:
    """Call a query; return True when the work is done, False on NOT_READY, else raise."""
    code = int(_invoke(fn, (handle,), None)[0])
    if code not in (0, codes.NOT_READY):
        raise failure(fn.__name__, (handle,), code, None)
    return code == 0


def attempt(fn: Callable[..., Any], *args: Any) -> tuple[Any, ...]:
    """Call `fn(*args)` and return its whole answer, the code first, for the caller to judge."""
    return _invoke(fn, args, None)


def _invoke(fn: Callable[..., Any], args: tuple[Any, ...], nbytes: int | None) -> tuple[Any, ...]:
    if _shut:
        _refuse(fn.__name__, args)
    unsafe = fn.__name__ in captures.UNSAFE
    if unsafe:
        captures.in_flight[threading.get_ident()] = fn.__name__, args
    try:
        judge = guard  # looked at once, as below: another thread's window may end meanwhile
        if judge is not None:
            judge(fn.__name__, args)
        answer: tuple[Any, ...] = fn(*args)
    except _BINDING_ERRORS as error:
        told = observer
        if told is not None:
            told(fn.__name__, args, codes.OUTSIDE_TABLE)
        raise _binding_failure(fn.__name__, args, error, nbytes) from error
    finally:
        if unsafe:
            captures.in_flight.pop(threading.get_ident(), None)
    told = observer
    if told is not None:
        told(fn.__name__, args, int(answer[0]))
    if counters.active and not answer[0]:
        counters.note(fn.__name__)
    return answer


def _refuse(name: str, args: tuple[Any, ...]) -> None:
    forked.check()
    if poison.current is not None:
        raise poison.refuse(poison.current, name, _readable(args))
    callbacks.refuse(name)


def failure(name: str, args: Sequence[Any], code: int, nbytes: int | None) -> DriverError:
    """Return the exception for a call that answered `code`."""
    text = _describe(code)
    if code in codes.STICKY:
        return _sticky(name, _readable(args), code, text)
    if code == _IMPLICIT:
        text = f"{text}; {captures.describe()}"
    if code == codes.INVALID_CONTEXT:
        text += "; call device.make_current() once in each thread"
    return codes.error_class(code)(name, _readable(args), code, codes.name_of(code), text, nbytes)


def _sticky(name: str, arguments: str, code: int, text: str) -> ContextPoisoned:
    if fault_text is not None:
        text = fault_text() or text
    told = codes.name_of(code)
    found = poison.mark(code, told, f"{name}({arguments}) {code} {told}: {text}")
    error = ContextPoisoned(name, arguments, code, told, f"{text}; {found.history()}")
    return poison.told(error, found)


def _describe(code: int) -> str:
    try:
        status, text = driver.cuGetErrorString(driver.CUresult(code))
    except _BINDING_ERRORS:  # no driver, or a code newer than the bindings
        return codes.meaning_of(code)
    return text.decode(errors="replace") if text and not status else codes.meaning_of(code)


def _binding_failure(
    name: str, args: Sequence[Any], error: Exception, nbytes: int | None
) -> LowgraphError:
    if isinstance(error, DynamicLibNotFoundError):
        return DeviceUnavailable(
            f"{name}: no CUDA driver on this machine; install the NVIDIA driver, "
            "or run on the host device (--device host)"
        )
    # The class moved between releases of the bindings (and 12.9 keeps it in a private module).
    if type(error).__name__ == "FunctionNotFoundError":
        text = f"the driver lacks this function ({error}); a newer driver is needed"
        code_name = "FUNCTION_NOT_FOUND"
    elif isinstance(error, ValueError):
        text = f"the driver answered with a value that cuda-bindings does not know: {error}"
        code_name = "VALUE_NOT_IN_THE_BINDINGS"
    else:
        text = f"cuda-bindings refused the call: {error}"
        code_name = "REFUSED_BY_THE_BINDINGS"
    return DriverError(name, _readable(args), codes.OUTSIDE_TABLE, code_name, text, nbytes)


def _readable(args: Sequence[Any]) -> str:
    return ", ".join(readable(value) for value in args)


def readable(value: Any) -> str:
    """Return one argument of a driver call as short text; handles and addresses in hexadecimal."""
    kind = type(value).__name__
    if type(value) is int:
        return hex(value) if value > 0xFFFF else str(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return repr(bytes(value)) if len(value) <= 40 else f"<{len(value)} bytes>"
    if kind == "CUlaunchConfig":
        return _readable_config(value)
    if kind == "CUgraphNodeParams":
        # Its text has every member of the union: the bindings follow pointers not in use.
        return f"<{str(value.type.name).removeprefix('CU_GRAPH_NODE_TYPE_')} node>"
    if kind == "CUfunction":
        handle = int(value)
        return function_names.get(handle, hex(handle))
    enumerator = getattr(value, "name", None)
    if isinstance(enumerator, str):
        return enumerator
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else f"{text[:57]}..."


def _readable_config(config: Any) -> str:
    grid = (config.gridDimX, config.gridDimY, config.gridDimZ)
    block = (config.blockDimX, config.blockDimY, config.blockDimZ)
    shared = config.sharedMemBytes
    return f"grid={grid} block={block} shared={shared} stream={hex(int(config.hStream))}"
