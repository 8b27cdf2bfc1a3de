"""Entry points reached in C, by cuGetProcAddress and ctypes, for calls that the bindings break.

- cuGraphExecUpdate: the bindings (12.9 to 13.5) return None for the result info when the update
  fails, so the reason and the node are lost.
- cuLaunchHostFunc: the bindings (12.9, 13.4) wrap the function in a trampoline that serves once;
  the second replay of a captured host node crashes the process.
"""

from __future__ import annotations

import ctypes
from typing import Any

from cuda.bindings import driver

from lowgraph.driver import gate
from lowgraph.errors import DriverError

HOST_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
"""ctypes type of a host function: void (*)(void* user_data). It must make no driver call."""


class UpdateInfo(ctypes.Structure):
    """CUgraphExecUpdateResultInfo of cuda.h."""

    _fields_ = [
        ("result", ctypes.c_int),
        ("error_node", ctypes.c_void_p),
        ("error_from_node", ctypes.c_void_p),
    ]


class EntryPoint:
    """A driver function by name and ABI version, callable as a function of the bindings is.

    It is resolved at the first call, so importing this module makes no driver call.
    """

    def __init__(self, name: str, version: int, *argtypes: Any) -> None:
        self.__name__ = name
        self._version = version
        self._prototype = ctypes.CFUNCTYPE(ctypes.c_int, *argtypes)
        self._function: Any = None

    def __call__(self, *args: Any) -> tuple[int]:
        """Call it; return (code,)."""
        if self._function is None:
            self._function = self._prototype(self._resolve())
        return (self._function(*args),)

    def _resolve(self) -> int:
        name = self.__name__.encode()
        found = gate.call(driver.cuGetProcAddress, name, self._version, 0)
        address, status = int(found[0] or 0), found[1]
        if not address:
            text = f"the driver has no such function at version {self._version}: {status}"
            raise DriverError(self.__name__, "", -1, "FUNCTION_NOT_FOUND", text)
        return address


_POINTER = ctypes.c_void_p

# 12000 is the version at which the result info became a struct (cudaTypedefs.h).
graph_exec_update = EntryPoint(
    "cuGraphExecUpdate", 12000, _POINTER, _POINTER, ctypes.POINTER(UpdateInfo)
)
_launch_host_func = EntryPoint("cuLaunchHostFunc", 10000, _POINTER, _POINTER, _POINTER)


def launch_host_function(stream: int, function: int, user_data: int = 0) -> None:
    """Call `function(user_data)` on the host in stream order (cuLaunchHostFunc).

    function: address of a C function. Of a Python one it is
    `ctypes.cast(HOST_FUNCTION(f), ctypes.c_void_p).value`; the caller keeps the HOST_FUNCTION
    object alive as long as a stream or a graph may call it.
    """
    gate.call(_launch_host_func, stream, function, user_data)
