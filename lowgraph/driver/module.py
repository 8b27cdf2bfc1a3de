"""Modules and functions. Both are handles as integers."""

from __future__ import annotations

from cuda.bindings import driver

from lowgraph.driver import context, gate

_MAX_DYNAMIC_SHARED = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
_MOST_THREADS = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK
_STATIC_SHARED = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES
_LOADED = driver.CUfunctionLoadingState.CU_FUNCTION_LOADING_STATE_LOADED
_INVALID_VALUE = 1


def load_data(image: bytes) -> int:
    """Load a module image (cuModuleLoadData): PTX, a cubin, a fat binary, or the host device's.

    With lazy loading the driver may read the image later: the driver copies it, so the caller need
    not keep it.
    """
    context.require("cuModuleLoadData")
    return int(gate.call(driver.cuModuleLoadData, image, nbytes=len(image)))


def unload(module: int) -> None:
    """Unload a module (cuModuleUnload). Graphs that hold its functions must be gone before."""
    with gate.teardown_lock:
        gate.call(driver.cuModuleUnload, module)


def get_function(module: int, name: str) -> int:
    """Return the function of that name (cuModuleGetFunction); 500 NOT_FOUND when there is none."""
    function = int(gate.call(driver.cuModuleGetFunction, module, name.encode()))
    gate.function_names[function] = name
    return function


def functions(module: int) -> dict[str, int]:
    """Return every kernel of the module by name (cuModuleEnumerateFunctions)."""
    count = int(gate.call(driver.cuModuleGetFunctionCount, module))
    found = gate.call(driver.cuModuleEnumerateFunctions, count, module) if count else []
    return {function_name(int(function)): int(function) for function in found}


def make_resident(function: int) -> None:
    """Load the function's code now, whatever the lazy loading setting (cuFuncLoad)."""
    gate.call(driver.cuFuncLoad, function)


def is_resident(function: int) -> bool:
    """Return whether the function's code is loaded (cuFuncIsLoaded)."""
    return bool(gate.call(driver.cuFuncIsLoaded, function) == _LOADED)


def param_info(function: int, index: int) -> tuple[int, int] | None:
    """Return parameter `index`'s (offset, size) in bytes, None past the last.

    (cuFuncGetParamInfo)
    """
    code, offset, size = gate.attempt(driver.cuFuncGetParamInfo, function, index)
    if int(code) == _INVALID_VALUE:
        return None
    if code:
        args = (function, index)
        raise gate.failure(driver.cuFuncGetParamInfo.__name__, args, int(code), None)
    return int(offset), int(size)


def function_name(function: int) -> str:
    """Return the function's name, of any library's kernel too (cuFuncGetName)."""
    return bytes(gate.call(driver.cuFuncGetName, function)).decode()


def most_threads(function: int) -> int:
    """Return how many threads a block of the function may have (cuFuncGetAttribute)."""
    return int(gate.call(driver.cuFuncGetAttribute, _MOST_THREADS, function))


def static_shared(function: int) -> int:
    """Return the bytes of the function's own shared variables (cuFuncGetAttribute)."""
    return int(gate.call(driver.cuFuncGetAttribute, _STATIC_SHARED, function))


def set_max_dynamic_shared(function: int, nbytes: int) -> None:
    """Allow launches with up to `nbytes` of dynamic shared memory (cuFuncSetAttribute).

    Needed above 48 KiB, static bytes included. Raises DriverError 1 beyond what the device has.
    """
    gate.call(driver.cuFuncSetAttribute, function, _MAX_DYNAMIC_SHARED, nbytes, nbytes=nbytes)
