// Modules, and what can be asked of their functions.
#include <algorithm>

#include "capture.h"
#include "module.h"
#include "queue.h"

using namespace lowgraph;

namespace {

CUfunction handle_of(Function* function) { return reinterpret_cast<CUfunction>(function); }

CUresult load(CUmodule* out, const void* image) {
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    Module* module = nullptr;
    const CUresult code = load_module(image, &module);
    if (code == CUDA_SUCCESS) *out = reinterpret_cast<CUmodule>(module);
    return code;
}

}  // namespace

LOWGRAPH_API CUresult cuModuleLoadData(CUmodule* module, const void* image) {
    LOWGRAPH_ENTRY(context);
    return load(module, image);
}

LOWGRAPH_API CUresult cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned,
                                         CUjit_option*, void**) {
    LOWGRAPH_ENTRY(context);  // the options are for a PTX compiler
    return load(module, image);
}

LOWGRAPH_API CUresult cuModuleLoadFatBinary(CUmodule* module, const void* image) {
    LOWGRAPH_ENTRY(context);
    return load(module, image);
}

LOWGRAPH_API CUresult cuModuleLoad(CUmodule* module, const char* path) {
    LOWGRAPH_ENTRY(context);
    std::string image;
    if (path == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return read_image_file(path, &image) ? load(module, image.data()) : CUDA_ERROR_FILE_NOT_FOUND;
}

LOWGRAPH_API CUresult cuModuleUnload(CUmodule handle) {
    LOWGRAPH_ENTRY(context);
    Module* module = find_module(handle);
    if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (const CUresult refused = guard_unsafe(); refused != CUDA_SUCCESS) return refused;
    finish_all(entry.lock());  // kernels of the image may be running
    if (find_module(handle) != module) return CUDA_ERROR_INVALID_HANDLE;
    unload_module(*module);
    return CUDA_SUCCESS;
}

LOWGRAPH_API CUresult cuModuleGetFunction(CUfunction* out, CUmodule handle, const char* name) {
    LOWGRAPH_ENTRY(handle);
    Module* module = find_module(handle);
    if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (out == nullptr || name == nullptr) return CUDA_ERROR_INVALID_VALUE;
    Function* function = get_function(*module, name);
    *out = handle_of(function);
    return function != nullptr ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

LOWGRAPH_API CUresult cuModuleGetFunctionCount(unsigned* count, CUmodule handle) {
    LOWGRAPH_ENTRY(context);
    const Module* module = find_module(handle);
    if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *count = static_cast<unsigned>(module->kernels.size());
    return CUDA_SUCCESS;
}

LOWGRAPH_API CUresult cuModuleEnumerateFunctions(CUfunction* out, unsigned room, CUmodule handle) {
    LOWGRAPH_ENTRY(context);
    Module* module = find_module(handle);
    if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const size_t count = std::min<size_t>(room, module->kernels.size());
    for (size_t i = 0; i < count; ++i)
        out[i] = handle_of(get_function(*module, module->kernels[i]));
    return CUDA_SUCCESS;
}

LOWGRAPH_API CUresult cuModuleGetGlobal_v2(CUdeviceptr* address, size_t* bytes, CUmodule handle,
                                           const char* name) {
    LOWGRAPH_ENTRY(handle);
    Module* module = find_module(handle);
    if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
    uint64_t start = 0;
    size_t size = 0;
    if (!get_global(*module, name, &start, &size)) return CUDA_ERROR_NOT_FOUND;
    if (address != nullptr) *address = start;
    if (bytes != nullptr) *bytes = size;
    return CUDA_SUCCESS;
}

LOWGRAPH_API CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode* mode) {
    LOWGRAPH_ENTRY(driver);
    if (mode == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *mode = CU_MODULE_LAZY_LOADING;
    return CUDA_SUCCESS;
}

LOWGRAPH_API CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute,
                                         CUfunction handle) {
    LOWGRAPH_ENTRY(handle);
    const Function* function = find_function(handle);
    if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    return read_attribute(*function, attribute, value);
}

LOWGRAPH_API CUresult cuFuncSetAttribute(CUfunction handle, CUfunction_attribute attribute,
                                         int value) {
    LOWGRAPH_ENTRY(handle);
    Function* function = find_function(handle);
    if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    return write_attribute(*function, attribute, value);
}

LOWGRAPH_API CUresult cuFuncSetCacheConfig(CUfunction handle, CUfunc_cache) {
    LOWGRAPH_ENTRY(handle);
    return find_function(handle) != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

LOWGRAPH_API CUresult cuFuncGetName(const char** name, CUfunction handle) {
    LOWGRAPH_ENTRY(handle);
    const Function* function = find_function(handle);
    if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *name = function->name.c_str();
    return CUDA_SUCCESS;
}

LOWGRAPH_API CUresult cuFuncGetModule(CUmodule* module, CUfunction handle) {
    LOWGRAPH_ENTRY(handle);
    const Function* function = find_function(handle);
    if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (module == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *module = reinterpret_cast<CUmodule>(function->module);
    return CUDA_SUCCESS;
}

LOWGRAPH_API CUresult cuFuncGetParamInfo(CUfunction handle, size_t index, size_t* offset,
                                         size_t* size) {
    LOWGRAPH_ENTRY(handle);
    const Function* function = find_function(handle);
    if (function == nullptr) return handle == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
    return read_parameter(*function, index, offset, size);
}

LOWGRAPH_API CUresult cuFuncIsLoaded(CUfunctionLoadingState* state, CUfunction handle) {
    LOWGRAPH_ENTRY(handle);
    const Function* function = find_function(handle);
    if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (state == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *state =
        function->resident ? CU_FUNCTION_LOADING_STATE_LOADED : CU_FUNCTION_LOADING_STATE_UNLOADED;
    return CUDA_SUCCESS;
}

LOWGRAPH_API CUresult cuFuncLoad(CUfunction handle) {
    LOWGRAPH_ENTRY(handle);
    Function* function = find_function(handle);
    if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    function->resident = true;
    return CUDA_SUCCESS;
}
