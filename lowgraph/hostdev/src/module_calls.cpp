#include "module_calls.h"

#include <algorithm>

#include "capture.h"
#include "queue.h"

namespace lowgraph {
namespace {

CUfunction handle_of(Function* function) { return reinterpret_cast<CUfunction>(function); }

}  // namespace

CUresult load_image(const void* image, Context* context, CUmodule* out, const std::string& path) {
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    Module* module = nullptr;
    const CUresult code = load_module(image, path, context, &module);
    if (code == CUDA_SUCCESS) *out = reinterpret_cast<CUmodule>(module);
    return code;
}

CUresult load_image_file(const char* path, Context* context, CUmodule* out) {
    std::string image;
    if (path == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return read_image_file(path, &image) ? load_image(image.data(), context, out, path)
                                         : CUDA_ERROR_FILE_NOT_FOUND;
}

CUresult unload(Entry& entry, CUmodule handle) {
    Module* module = find_module(handle);
    if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (const CUresult refused = guard_unsafe(); refused != CUDA_SUCCESS) return refused;
    finish_all(entry.lock());  // kernels of the image may be running
    if (find_module(handle) != module) return CUDA_ERROR_INVALID_HANDLE;
    unload_module(*module);
    return CUDA_SUCCESS;
}

CUresult name_kernel(CUmodule handle, const char* name, CUfunction* out) {
    Module* module = find_module(handle);
    if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (out == nullptr || name == nullptr) return CUDA_ERROR_INVALID_VALUE;
    Function* function = get_function(*module, name);
    *out = handle_of(function);
    return function != nullptr ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult count_kernels(CUmodule handle, unsigned* count) {
    const Module* module = find_module(handle);
    if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *count = static_cast<unsigned>(module->kernels.size());
    return CUDA_SUCCESS;
}

CUresult list_kernels(CUmodule handle, unsigned room, CUfunction* out) {
    Module* module = find_module(handle);
    if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const size_t count = std::min<size_t>(room, module->kernels.size());
    for (size_t i = 0; i < count; ++i)
        out[i] = handle_of(get_function(*module, module->kernels[i]));
    return CUDA_SUCCESS;
}

CUresult name_global(CUmodule handle, const char* name, CUdeviceptr* address, size_t* bytes) {
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

CUresult name_of(CUfunction handle, const char** name) {
    const Function* function = find_function(handle);
    if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *name = function->name.c_str();
    return CUDA_SUCCESS;
}

CUresult home_of(CUfunction handle, CUmodule* module) {
    const Function* function = find_function(handle);
    if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (module == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *module = reinterpret_cast<CUmodule>(function->module);
    return CUDA_SUCCESS;
}

CUresult parameter_of(CUfunction handle, size_t index, size_t* offset, size_t* size) {
    const Function* function = find_function(handle);
    return function != nullptr ? read_parameter(*function, index, offset, size)
                               : CUDA_ERROR_INVALID_HANDLE;
}

CUresult attribute_of(CUfunction handle, CUfunction_attribute attribute, int* value) {
    const Function* function = find_function(handle);
    return function != nullptr ? read_attribute(*function, attribute, value)
                               : CUDA_ERROR_INVALID_HANDLE;
}

CUresult set_attribute_of(CUfunction handle, CUfunction_attribute attribute, int value) {
    Function* function = find_function(handle);
    return function != nullptr ? write_attribute(*function, attribute, value)
                               : CUDA_ERROR_INVALID_HANDLE;
}

CUresult prefer_cache(CUfunction handle) {
    return find_function(handle) != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

}  // namespace lowgraph
