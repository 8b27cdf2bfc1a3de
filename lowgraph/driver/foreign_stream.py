"""Streams of other libraries, whatever they call them: the handle that they all stand for."""

from __future__ import annotations

from typing import Any, Protocol

from cuda.bindings import driver

from lowgraph.errors import ConfigError

__all__ = ["StreamLike", "stream_handle"]

_VERSION = 0  # of the __cuda_stream__ protocol


class _CudaStream(Protocol):
    def __cuda_stream__(self) -> tuple[int, int]: ...


class _TorchStream(Protocol):
    @property
    def cuda_stream(self) -> int: ...


class _CupyStream(Protocol):
    @property
    def ptr(self) -> int: ...


StreamLike = int | _CudaStream | _TorchStream | _CupyStream
"""A CUstream as an integer, an object with `__cuda_stream__` (cuda.core and others), with
`.cuda_stream` (PyTorch) or with `.ptr` (CuPy)."""


def stream_handle(stream: StreamLike) -> int:
    """Return the CUstream of a stream as an integer; nothing is kept alive by it.

    Raises ConfigError for what is no stream, and for another version of `__cuda_stream__`.
    """
    handle = _handle_of(stream)
    # A bool is an int, and no stream; the bindings' CUstream is none and converts to one.
    if type(handle) is int and handle >= 0:
        return handle
    raise ConfigError(
        f"{stream!r} is no stream: give a CUstream as an integer, or an object with "
        "__cuda_stream__(), .cuda_stream or .ptr"
    )


def _handle_of(stream: Any) -> Any:
    if type(stream) is int:
        return stream
    if isinstance(stream, driver.CUstream):
        return int(stream)
    protocol = getattr(stream, "__cuda_stream__", None)
    if callable(protocol):
        version, handle = protocol()
        if version != _VERSION:
            raise ConfigError(
                f"{stream!r} speaks version {version} of __cuda_stream__, lowgraph {_VERSION}: "
                "give its handle as an integer"
            )
        return int(handle)
    return getattr(stream, "cuda_stream", getattr(stream, "ptr", None))
