"""The device's context, and the refusal to make anything in another one.

A thread may have a context of somebody else's current. What is allocated, loaded or created then
belongs to that one, goes with it, and cannot be used beside what is the device's.
"""

from __future__ import annotations

from cuda.bindings import driver

from lowgraph.driver import gate, poison
from lowgraph.driver.callers import requester
from lowgraph.errors import WrongContext

__all__ = ["adopt", "require"]

_spec = ""
_handle = 0


def adopt(spec: str, handle: int) -> None:
    """The process has that device, and this is its context."""
    global _spec, _handle
    _spec, _handle = spec, handle


def require(call: str) -> None:
    """Raise WrongContext if the calling thread has a context that is not the device's.

    None at all is the driver's to refuse, with what to do about it. Raises DriverError if the
    thread's context cannot be asked for.
    """
    if not _handle or poison.shut:  # the gate will refuse the call
        return
    # Past the gate: a look at the thread, in no capture's way, and no call of the user's to be
    # journalled.
    code, current = driver.cuCtxGetCurrent()
    if code:
        raise gate.failure("cuCtxGetCurrent", (), int(code), None)
    if int(current) not in (0, _handle):
        raise WrongContext(
            f"{requester()}: {call} in a thread whose context is {int(current):#x}, not that of "
            f"{_spec} ({_handle:#x}): what is made there belongs to the other one. Pop that "
            "context first (cuCtxPopCurrent), or call device.make_current()"
        )
