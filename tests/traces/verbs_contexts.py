"""Verbs of several contexts: made, current, destroyed. Each returns (code, extra).

What is made under a context `c` gets a name that begins with `c.`: once the context is destroyed
the world leaves those handles alone. The world's own context is called `home`.
"""

from __future__ import annotations

import ctypes
from typing import Any

from cuda.bindings import driver as cu

from tests.traces import proc
from tests.traces.world import World, attempt

Answer = tuple[int, Any]


# ---- The contexts themselves ----
def ctx_create(world: World, name: str, flags: str = "0", device: str = "0") -> Answer:
    """cuCtxCreate; it becomes the current one."""
    made = ctypes.c_void_p()
    code = proc.call("cuCtxCreate", 3020, ctypes.byref(made), int(flags), int(device))
    if code == 0:
        world.contexts[name] = made.value or 0
    return code, None


def ctx_destroy(world: World, name: str) -> Answer:
    """cuCtxDestroy."""
    code, _ = attempt(cu.cuCtxDestroy, world.context(name))
    if code == 0:
        world.lost.add(name)
    return code, None


def ctx_use(world: World, name: str) -> Answer:
    """cuCtxSetCurrent of a context, or of none."""
    return attempt(cu.cuCtxSetCurrent, world.context(name))[0], None


def ctx_use_number(world: World, number: str) -> Answer:
    """cuCtxSetCurrent of a handle that never was one: a number, or memory by its name."""
    handle = int(number) if number.isdigit() else world.address(number)
    return attempt(cu.cuCtxSetCurrent, cu.CUcontext(handle))[0], None


def ctx_put_number(world: World, number: str) -> Answer:
    """cuCtxPushCurrent of a handle that never was one: a number, or memory by its name."""
    handle = int(number) if number.isdigit() else world.address(number)
    return attempt(cu.cuCtxPushCurrent, cu.CUcontext(handle))[0], None


def ctx_put(world: World, name: str) -> Answer:
    """cuCtxPushCurrent of a context, or of none."""
    return attempt(cu.cuCtxPushCurrent, world.context(name))[0], None


def ctx_drop(world: World) -> Answer:
    """cuCtxPopCurrent; extra: which it was."""
    code, handle = attempt(cu.cuCtxPopCurrent)
    return code, world.context_name(handle) if code == 0 else None


def ctx_which(world: World) -> Answer:
    """cuCtxGetCurrent; extra: which it is."""
    code, handle = attempt(cu.cuCtxGetCurrent)
    return code, world.context_name(handle) if code == 0 else None


def ctx_id(world: World, name: str) -> Answer:
    """cuCtxGetId; extra: whether no earlier asked context of the scenario has the number."""
    code, number = attempt(cu.cuCtxGetId, world.context(name))
    if code:
        return code, None
    new = all(int(number) != seen for other, seen in world.context_ids.items() if other != name)
    world.context_ids[name] = int(number)
    return code, new


def ctx_version(world: World, name: str) -> Answer:
    """cuCtxGetApiVersion; extra: the version."""
    code, version = attempt(cu.cuCtxGetApiVersion, world.context(name))
    return code, int(version) if code == 0 else None


def ctx_flags(_world: World) -> Answer:
    """cuCtxGetFlags; extra: how it waits, its lowest three bits."""
    code, flags = attempt(cu.cuCtxGetFlags)
    return code, int(flags) & 7 if code == 0 else None


def ctx_set_flags(_world: World, flags: str) -> Answer:
    """cuCtxSetFlags."""
    return attempt(cu.cuCtxSetFlags, int(flags))[0], None


def stack_set(_world: World, nbytes: str) -> Answer:
    """cuCtxSetLimit of a thread's stack."""
    return attempt(cu.cuCtxSetLimit, cu.CUlimit.CU_LIMIT_STACK_SIZE, int(nbytes))[0], None


def stack_get(_world: World) -> Answer:
    """cuCtxGetLimit of a thread's stack; extra: bytes."""
    code, nbytes = attempt(cu.cuCtxGetLimit, cu.CUlimit.CU_LIMIT_STACK_SIZE)
    return code, int(nbytes) if code == 0 else None


def peer_enable(world: World, name: str) -> Answer:
    """cuCtxEnablePeerAccess of the current context to one of the same device."""
    return attempt(cu.cuCtxEnablePeerAccess, world.context(name), 0)[0], None


def peer_disable(world: World, name: str) -> Answer:
    """cuCtxDisablePeerAccess."""
    return attempt(cu.cuCtxDisablePeerAccess, world.context(name))[0], None


def primary_reset(world: World) -> Answer:
    """cuDevicePrimaryCtxReset: the world's context, and all that was made under it, are gone."""
    code, _ = attempt(cu.cuDevicePrimaryCtxReset, 0)
    if code == 0:
        world.lost.add("home")
    return code, None


def primary_let_go(world: World) -> Answer:
    """cuDevicePrimaryCtxRelease of what the device itself holds: the same."""
    code, _ = attempt(cu.cuDevicePrimaryCtxRelease, 0)
    if code == 0:
        world.lost.add("home")
    return code, None


def primary_same(world: World) -> Answer:
    """cuDevicePrimaryCtxRetain; extra: whether the handle is the one of before."""
    code, handle = attempt(cu.cuDevicePrimaryCtxRetain, 0)
    return code, int(handle) == world.contexts["home"] if code == 0 else None


def primary_flags(_world: World, flags: str) -> Answer:
    """cuDevicePrimaryCtxSetFlags."""
    return attempt(cu.cuDevicePrimaryCtxSetFlags, 0, int(flags))[0], None


_FUNCTIONS = (
    ctx_create, ctx_destroy, ctx_use, ctx_use_number, ctx_put_number, ctx_put, ctx_drop, ctx_which,
    ctx_id, ctx_version, ctx_flags, ctx_set_flags, stack_set, stack_get, peer_enable, peer_disable,
    primary_reset, primary_let_go, primary_same, primary_flags,
)  # fmt: skip
VERBS = {function.__name__: function for function in _FUNCTIONS}
