"""CFunction: a function of a C library that enqueues its kernels on a stream that we pass.

    library = ctypes.CDLL("./libsmooth.so")
    smooth = CFunction(library, "int smooth(CUstream stream, float* y, const float* x, int n)")

    def body(stream):
        smooth(stream, y, x, n)         # its launches are nodes of our graph

Arguments are checked as a kernel's. In the graph its nodes are the library's, in a stage of the
function's name; the memory that it is given is held, by-value arguments are watched for change.
What it calls does not pass through lowgraph: in a window its calls are counted below it, by the
host device or by CUPTI, and what has no place there is refused when it returns.
"""

from __future__ import annotations

import ctypes
import re
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from lowgraph.capture.c_calls import Seen, Watched, noted, observed
from lowgraph.driver import gate
from lowgraph.driver.callers import requester
from lowgraph.driver.foreign_stream import StreamLike, stream_handle
from lowgraph.errors import ConfigError, DriverError
from lowgraph.kernels import signature
from lowgraph.kernels.packing import ArgumentPack
from lowgraph.memory import open_window
from lowgraph.stages import stage

__all__ = ["CFunction", "include_dir"]

_PROTOTYPE = re.compile(
    r"\s*(?:extern\s+)?(?P<result>\w+)\s+(?P<name>\w+)\s*\((?P<rest>.*)\)\s*;?\s*", re.DOTALL
)
_STREAM = re.compile(r"\s*(?:CUstream|cudaStream_t)\s+\w+\s*(?:,|$)")
_RESULTS = {"int": True, "CUresult": True, "cudaError_t": True, "void": False}
_WANTED = "int NAME(CUstream stream, ...): a function of int, CUresult, cudaError_t or void"
# By the struct module's letters; half and bfloat16 are structs in C, which are passed otherwise.
_CTYPES: dict[str, Any] = {
    "f": ctypes.c_float,
    "d": ctypes.c_double,
    "?": ctypes.c_bool,
    "b": ctypes.c_int8,
    "B": ctypes.c_uint8,
    "h": ctypes.c_int16,
    "H": ctypes.c_uint16,
    "i": ctypes.c_int32,
    "I": ctypes.c_uint32,
    "q": ctypes.c_int64,
    "Q": ctypes.c_uint64,
}


def include_dir() -> Path:
    """The folder of lowgraph.h, for a C compiler's -I (`python -m lowgraph include` prints all)."""
    return Path(__file__).resolve().parents[1] / "include"


class CFunction:
    """See the module. library: a ctypes.CDLL, kept alive. prototype: as in its header.

    The first parameter is the stream; a result that is not 0 is a failure's CUresult.
    Raises ConfigError for a prototype of another form and a function that the library has not,
    KernelSourceError for a parameter that cannot be passed.
    """

    def __init__(self, library: ctypes.CDLL, prototype: str) -> None:
        if not isinstance(library, ctypes.CDLL):
            raise ConfigError(f"{library!r} is no C library: give what ctypes.CDLL(path) returns")
        match = _PROTOTYPE.fullmatch(str(prototype))
        if match is None or match["result"] not in _RESULTS or not _STREAM.match(match["rest"]):
            raise ConfigError(f"{prototype!r} is no prototype of a function to enqueue: {_WANTED}")
        self.name = match["name"]
        try:
            self._function = library[self.name]  # an object of our own: `library.name` is theirs
        except AttributeError:
            raise ConfigError(f"{library._name} has no function {self.name}") from None
        _, _, rest = match["rest"].partition(",")
        self.signature = signature.declared(self.name, rest)
        self._pack = ArgumentPack(self.signature)
        self._function.argtypes = [ctypes.c_uint64, *map(self._passed, self.signature.params)]
        self._function.restype = ctypes.c_int if _RESULTS[match["result"]] else None
        self._library = library
        self._stage = stage(f"{self.name} (C)")

    def __call__(self, stream: StreamLike, *args: Any) -> None:
        """Call it with `stream` and arguments as a kernel takes them.

        Raises ConfigError for what is no stream; ArgTypeError; DriverError with the code that it
        returned; in a capture window a CaptureRefused that says which of its calls has no place
        there.
        """
        values = self._pack.values(args)
        self._pack.store(values)  # checks ranges, which ctypes does not
        with self._stage:
            self._enqueue(stream_handle(stream), values)

    def _enqueue(self, stream: int, values: list[Any]) -> None:
        recorder = open_window.recorder()
        if recorder is not None and not recorder.is_mine():
            recorder = None  # another thread's pass
        watched = None if open_window.mine() is None else Watched(self.name, stream)
        counting = nullcontext(Seen()) if recorder is None else observed()
        with noted(self._library) as failure, counting as seen:
            code = self._function(stream, *values) or 0
        if watched is not None:
            error = watched.judge(code, failure, seen)
            if error is not None:
                raise open_window.refused(error)
        elif code:
            raise self._failed(code, str(failure))
        if recorder is not None:
            kernels = seen.kernels if watched is None else watched.kernels
            nodes = () if watched is None else watched.nodes
            self._report(recorder, kernels, values, nodes, stream)

    def _report(
        self,
        recorder: open_window.Recorder,
        kernels: int | None,
        values: list[Any],
        nodes: tuple[int, ...],
        stream: int,
    ) -> None:
        pairs = list(zip(self.signature.params, values, strict=True))
        addresses = tuple(value for param, value in pairs if param.pointer)
        scalars = tuple((param.name, value) for param, value in pairs if not param.pointer)
        recorder.library_call(self.name, kernels, addresses, scalars, nodes, stream)

    def _failed(self, code: int, where: str) -> DriverError:
        error = gate.failure(self.name, (), code, None)
        error.text = f"{error.text}; {where}{', ' if where else ''}called at {requester()}"
        return error

    def _passed(self, param: signature.Param) -> Any:
        found = _CTYPES.get(param.code)
        if found is None or ("bfloat16" in param.ctype and not param.pointer):
            raise ConfigError(
                f"{self.name}: parameter {param.name} is {param.ctype} by value, which C passes as "
                "a struct; pass a float, or an address"
            )
        return found

    def __repr__(self) -> str:
        """Return the signature."""
        return f"<CFunction {self.signature}>"
