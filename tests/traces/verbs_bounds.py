"""Verbs of launches beyond what a kernel or a device takes. Each returns (code, extra).

A launch is written as for `launch`: kernel= grid= gridy= gridz= block= blocky= blockz= shared=.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from cuda.bindings import driver as cu

from lowgraph.driver import Device, gate
from tests.traces.verbs_params import kernel_node
from tests.traces.verbs_work import shaped
from tests.traces.world import HERE, NamedNode, World, attempt

Answer = tuple[int, Any]
_KERNELS = ("bounded", "declared")


@cache
def _image(device: Device) -> bytes:
    return bytes(device.compile(HERE / "bounds.cu", [], {}))


def bounds_load(world: World) -> Answer:
    """cuModuleLoadData of the kernels of bounds.cu."""
    code, module = attempt(cu.cuModuleLoadData, _image(world.device))
    if code:
        return code, None
    world.modules["bounds"] = module
    for name in _KERNELS:
        function = gate.call(cu.cuModuleGetFunction, module, name.encode())
        gate.call(cu.cuFuncLoad, function)
        world.functions[name] = function
    return 0, None


def launch_plain(world: World, stream: str, *settings: str) -> Answer:
    """cuLaunchKernel."""
    options = dict(setting.split("=", 1) for setting in settings)
    shape = shaped(cu.CUlaunchConfig(), options)
    held = (
        shape.gridDimX, shape.gridDimY, shape.gridDimZ, shape.blockDimX, shape.blockDimY,
        shape.blockDimZ, shape.sharedMemBytes, world.stream(stream), world.pack_buffers(), 0,
    )  # fmt: skip
    function = world.functions[options.get("kernel", "noop")]
    return attempt(cu.cuLaunchKernel, function, *held)[0], None


def add_launch(world: World, name: str, graph: str, *settings: str) -> Answer:
    """cuGraphAddKernelNode, behind nothing."""
    params = kernel_node(world, dict(setting.split("=", 1) for setting in settings))
    code, node = attempt(cu.cuGraphAddKernelNode, world.graphs[graph], None, 0, params)
    if code == 0:
        world.nodes[name] = NamedNode(node, int(world.graphs[graph]))
    return code, None


_FUNCTIONS = (bounds_load, launch_plain, add_launch)
VERBS = {function.__name__: function for function in _FUNCTIONS}
