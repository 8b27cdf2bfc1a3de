// Modules, and what can be asked of their functions.
#include <chrono>
#include <cstring>

#include "context.h"
#include "module_calls.h"

using namespace lowgraph;

namespace {

// What the options of a PTX compiler bring back for an image that needs none (recorded): logs of no
// bytes, and the milliseconds that it took, a float in the value's own place.
void tell_options(unsigned count, const CUjit_option* options, void** values, float milliseconds) {
    if (options == nullptr || values == nullptr) return;
    for (unsigned i = 0; i < count; ++i) {
        const bool is_size = options[i] == CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES ||
                             options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES;
        if (is_size) values[i] = nullptr;
        if (options[i] == CU_JIT_WALL_TIME) std::memcpy(&values[i], &milliseconds, sizeof milliseconds);
    }
}

}  // namespace

LOWGRAPH_API CUresult cuModuleLoadData(CUmodule* module, const void* image) {
    LOWGRAPH_ENTRY(context);
    return load_image(image, current_context(), module);
}

LOWGRAPH_API CUresult cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned count,
                                         CUjit_option* options, void** values) {
    LOWGRAPH_ENTRY(context);
    const auto begun = std::chrono::steady_clock::now();
    const CUresult code = load_image(image, current_context(), module);
    const std::chrono::duration<float, std::milli> took = std::chrono::steady_clock::now() - begun;
    if (code == CUDA_SUCCESS) tell_options(count, options, values, took.count());
    return code;
}

LOWGRAPH_API CUresult cuModuleLoadFatBinary(CUmodule* module, const void* image) {
    LOWGRAPH_ENTRY(context);
    return load_image(image, current_context(), module);
}

LOWGRAPH_API CUresult cuModuleLoad(CUmodule* module, const char* path) {
    LOWGRAPH_ENTRY(context);
    return load_image_file(path, current_context(), module);
}

LOWGRAPH_API CUresult cuModuleUnload(CUmodule module) {
    LOWGRAPH_ENTRY(context);
    return unload(entry, module);
}

LOWGRAPH_API CUresult cuModuleGetFunction(CUfunction* out, CUmodule module, const char* name) {
    LOWGRAPH_ENTRY(handle);
    return name_kernel(module, name, out);
}

LOWGRAPH_API CUresult cuModuleGetFunctionCount(unsigned* count, CUmodule module) {
    LOWGRAPH_ENTRY(handle);
    return count_kernels(module, count);
}

LOWGRAPH_API CUresult cuModuleEnumerateFunctions(CUfunction* out, unsigned room, CUmodule module) {
    LOWGRAPH_ENTRY(handle);
    return list_kernels(module, room, out);
}

LOWGRAPH_API CUresult cuModuleGetGlobal_v2(CUdeviceptr* address, size_t* bytes, CUmodule module,
                                           const char* name) {
    LOWGRAPH_ENTRY(handle);
    return name_global(module, name, address, bytes);
}

LOWGRAPH_API CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode* mode) {
    LOWGRAPH_ENTRY(driver);
    if (mode == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *mode = CU_MODULE_LAZY_LOADING;
    return CUDA_SUCCESS;
}

// To tell about a kernel, a driver loads it.
LOWGRAPH_API CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute,
                                         CUfunction function) {
    LOWGRAPH_ENTRY(handle);
    if (Function* const found = find_function(function)) found->resident = true;
    return attribute_of(function, attribute, value);
}

LOWGRAPH_API CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute,
                                         int value) {
    LOWGRAPH_ENTRY(handle);
    return set_attribute_of(function, attribute, value);
}

LOWGRAPH_API CUresult cuFuncSetCacheConfig(CUfunction function, CUfunc_cache) {
    LOWGRAPH_ENTRY(handle);
    return prefer_cache(function);
}

LOWGRAPH_API CUresult cuFuncGetName(const char** name, CUfunction function) {
    LOWGRAPH_ENTRY(handle);
    return name_of(function, name);
}

LOWGRAPH_API CUresult cuFuncGetModule(CUmodule* module, CUfunction function) {
    LOWGRAPH_ENTRY(handle);
    return home_of(function, module);
}

LOWGRAPH_API CUresult cuFuncGetParamInfo(CUfunction function, size_t index, size_t* offset,
                                         size_t* size) {
    LOWGRAPH_ENTRY(handle);
    if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return parameter_of(function, index, offset, size);
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
