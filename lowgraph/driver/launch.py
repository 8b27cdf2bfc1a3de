"""The one launch path: cuLaunchKernelEx with a reusable configuration.

A launch from Python costs 4 to 6 us, most of it in unpacking: so the configuration is an object
that is written only where it changes, and arguments are an array of pointers prepared by the caller
(its address is passed on; the driver copies the values before the call returns).
"""

from __future__ import annotations

import ctypes
import operator
import struct
from collections.abc import Callable
from typing import Any

from cuda.bindings import driver

from lowgraph.driver import gate
from lowgraph.errors import ConfigError
from lowgraph.integers import integer

Size = int | tuple[int, ...]

# CUlaunchConfig as cuda.h lays it out: gridDim[3], blockDim[3], sharedMemBytes, hStream, then the
# attributes. Written as one block: through the bindings' setters it is 8 calls of 0.15 to 0.33 us.
_FIELDS = struct.Struct("=7I4xQ")


class LaunchConfig:
    """Where and how wide a kernel runs. Reusable; not to be changed while another thread launches.

    grid: blocks as (x, y, z), (x, y) or x.
    block: threads alike.
    shared: bytes of dynamic shared memory.
    cluster: blocks of a thread block cluster, or None.
    """

    def __init__(
        self,
        stream: int,
        grid: Size,
        block: Size,
        shared: int = 0,
        cluster: Size | None = None,
    ) -> None:
        self.raw = driver.CUlaunchConfig()
        address = int(self.raw.getPtr())
        fields = (ctypes.c_ubyte * _FIELDS.size).from_address(address)
        self._fields = memoryview(fields).cast("B")
        self.set(stream, grid, block, shared)
        if cluster is not None:
            self._set_cluster(three("cluster", cluster))

    def set(self, stream: int, grid: Size, block: Size, shared: int = 0) -> None:
        """Overwrite stream, grid, block and shared bytes; raises ConfigError naming the bad one."""
        grid = three("grid", grid)
        block = three("block", block)
        if type(shared) is not int:
            shared = integer(shared, "launch configuration: shared", 0)
        try:
            _FIELDS.pack_into(self._fields, 0, *grid, *block, shared, stream)
        except struct.error as error:
            given = f"grid={grid} block={block} shared={shared!r} stream={stream!r}"
            raise ConfigError(f"launch configuration {given}: {error}") from error

    def _set_cluster(self, size: tuple[int, int, int]) -> None:
        attribute = driver.CUlaunchAttribute()
        attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
        attribute.value.clusterDim.x = size[0]
        attribute.value.clusterDim.y = size[1]
        attribute.value.clusterDim.z = size[2]
        self.raw.attrs = [attribute]
        self.raw.numAttrs = 1

    def __repr__(self) -> str:
        return f"LaunchConfig({gate.readable(self.raw)})"


def three(label: str, size: Size) -> tuple[int, int, int]:
    """Return a size as (x, y, z), 1 where not given; raises ConfigError on a bad one."""
    try:
        sizes = size if isinstance(size, tuple) else (size,)
        given = [operator.index(n) for n in sizes if not isinstance(n, bool)]
    except TypeError:
        given = []
    if not 1 <= len(given) == len(sizes) <= 3 or min(given) < 1:
        raise ConfigError(f"{label} {size!r}: must be one to three integers of at least 1")
    x, y, z = (*given, 1, 1)[:3]
    return x, y, z


def launch(config: LaunchConfig, function: Any, params_address: int) -> None:
    """Launch a kernel (cuLaunchKernelEx).

    function: the handle as an integer, or as a CUfunction made once (0.1 us less).
    params_address: address of an array of pointers to the argument values, in order; 0 for none.
    """
    gate.call(driver.cuLaunchKernelEx, config.raw, function, params_address, 0)


def launcher(config: LaunchConfig, function: Any, params_address: int) -> Callable[[], None]:
    """Return a function that is `launch` of these, for launches that are made at every step.

    It reads the configuration and the arguments when it is called. 0.2 us less than `launch`.
    """
    return gate.repeated(driver.cuLaunchKernelEx, config.raw, function, params_address, 0)
