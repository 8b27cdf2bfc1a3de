"""Kernels that CuPy compiled, of a RawModule or a RawKernel, as kernels to launch from here.

    module = cupy.RawModule(code=source)
    axpy = cupy_kernel(module.get_function("axpy"))
    axpy(stream, grid, block, y, x, 0.5, n)     # checked, journalled, pins followed

Names and types of the parameters come from `params`, or from the module's source; of one that was
loaded from a cubin or PTX, and of a template, only the sizes are known, as of any image
(`kernels.loaded`).
"""

from __future__ import annotations

from typing import Any

from lowgraph.driver import context, gate, module
from lowgraph.errors import ConfigError, ModuleLoadDuringCapture
from lowgraph.kernels import Kernel, Signature, SizedKernel, signature
from lowgraph.kernels.loaded import hold_against
from lowgraph.memory import open_window

__all__ = ["cupy_kernel"]

_MANGLED = "_Z"
_DEFINE = "-D"

# CuPy unloads a module when its last object goes, and graphs may hold its functions: as modules of
# a Library, these stay for the life of the process.
_kept: dict[int, Any] = {}


def cupy_kernel(kernel: Any, *, params: str | None = None) -> Kernel | SizedKernel:
    """A cupy.RawKernel, or what RawModule.get_function returns, to launch as a kernel of ours.

    params: its parameter list in C, instead of the source's. CuPy compiles and loads it now.
    Raises ConfigError for what is no such kernel, KernelSourceError for parameters that cannot be
    passed or differ from the code's, ModuleLoadDuringCapture in a window, what CuPy's compiler
    raises.
    """
    name = str(getattr(kernel, "name", ""))
    if not name or not hasattr(kernel, "options"):
        raise ConfigError(
            f"{kernel!r} is no kernel of CuPy's: give a cupy.RawKernel, or what "
            "RawModule.get_function(name) returns"
        )
    if open_window.mine() is not None:
        raise open_window.refused(
            ModuleLoadDuringCapture(
                f"kernel {name} of CuPy would be loaded in a capture window",
                open_window.requester(),
                "call cupy_kernel before the step",
            )
        )
    context.require(f"cupy_kernel({name})")
    handle = int(kernel.kernel.ptr)
    module.make_resident(handle)
    _kept[handle] = kernel.kernel
    title = f"CuPy's kernel {name}"
    found = _declared(kernel, name, params, title)
    # As the linker has it: that of a template is no identifier.
    gate.function_names[handle] = module.function_name(handle) if found is None else name
    if found is None:
        return SizedKernel(name, handle, title, None)
    typed = Kernel(found, handle)
    hold_against(typed, title)
    return typed


def _declared(kernel: Any, name: str, params: str | None, title: str) -> Signature | None:
    if params is not None:
        return signature.declared(name, params)
    code = getattr(kernel, "code", None)
    if code is None or name.startswith(_MANGLED):
        return None
    return signature.read_text(str(code), name, f"the source of {title}", _defines(kernel.options))


def _defines(options: Any) -> dict[str, str]:
    found = {}
    for option in options or ():
        if str(option).startswith(_DEFINE):
            key, _, value = str(option)[len(_DEFINE) :].partition("=")
            found[key.strip()] = value
    return found
