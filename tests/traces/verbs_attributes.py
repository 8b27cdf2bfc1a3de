"""Verbs of callbacks and of streams' attributes. Each returns (code, extra)."""

from __future__ import annotations

import ctypes
from typing import Any

from cuda.bindings import driver as cu

from tests.traces import proc
from tests.traces.world import World, attempt

Answer = tuple[int, Any]


def callback(world: World, stream: str, flags: str = "0") -> Answer:
    """cuStreamAddCallback of a function that does nothing."""
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)
    function = kind(lambda _stream, _status, _data: None)
    world.keep.append(function)
    held = proc.pointer(world.stream(stream)), ctypes.cast(function, ctypes.c_void_p), None
    return proc.call("cuStreamAddCallback", 5000, *held, int(flags)), None


def stream_copy_attributes(world: World, target: str, source: str) -> Answer:
    """cuStreamCopyAttributes."""
    ends = world.stream(target), world.stream(source)
    return attempt(cu.cuStreamCopyAttributes, *ends)[0], None


def window_set(world: World, stream: str, nbytes: str) -> Answer:
    """cuStreamSetAttribute of the access policy window, over the first buffer."""
    value = cu.CUstreamAttrValue()
    window = value.accessPolicyWindow
    window.base_ptr, window.num_bytes, window.hitRatio = int(world.buffers[0]), int(nbytes), 1.0
    window.hitProp = cu.CUaccessProperty.CU_ACCESS_PROPERTY_PERSISTING
    window.missProp = cu.CUaccessProperty.CU_ACCESS_PROPERTY_STREAMING
    value.accessPolicyWindow = window
    which = cu.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW
    return attempt(cu.cuStreamSetAttribute, world.stream(stream), which, value)[0], None


def window_get(world: World, stream: str) -> Answer:
    """cuStreamGetAttribute of the access policy window; extra: its bytes."""
    which = cu.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW
    code, value = attempt(cu.cuStreamGetAttribute, world.stream(stream), which)
    return code, int(value.accessPolicyWindow.num_bytes) if code == 0 else None


def spin_set(world: World, stream: str, policy: str) -> Answer:
    """cuStreamSetAttribute of how a synchronisation waits."""
    value = cu.CUstreamAttrValue()
    value.syncPolicy = cu.CUsynchronizationPolicy(int(policy))
    which = cu.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY
    return attempt(cu.cuStreamSetAttribute, world.stream(stream), which, value)[0], None


_FUNCTIONS = (callback, stream_copy_attributes, window_set, window_get, spin_set)
VERBS = {function.__name__: function for function in _FUNCTIONS}
