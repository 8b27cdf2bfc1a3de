// Libraries: modules without a context. With one device a library is its module and a CUkernel is a
// CUfunction, so that either handle can be launched.
#include <algorithm>

#include "capture.h"
#include "module.h"
#include "proc_entry.h"
#include "queue.h"

using namespace lowgraph;

namespace {

Module* find_library(CUlibrary handle) { return find_module(reinterpret_cast<CUmodule>(handle)); }
Function* find_kernel(CUkernel handle) {
    return find_function(reinterpret_cast<CUfunction>(handle));
}
CUkernel handle_of(Function* function) { return reinterpret_cast<CUkernel>(function); }

CUresult load(CUlibrary* out, const void* image) {
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    Module* module = nullptr;
    const CUresult code = load_module(image, &module);
    if (code == CUDA_SUCCESS) *out = reinterpret_cast<CUlibrary>(module);
    return code;
}

}  // namespace

LOWGRAPH_API CUresult cuLibraryLoadData(CUlibrary* library, const void* image, CUjit_option*,
                                        void**, unsigned, CUlibraryOption*, void**, unsigned) {
    LOWGRAPH_ENTRY(driver);
    return load(library, image);
}

LOWGRAPH_API CUresult cuLibraryLoadFromFile(CUlibrary* library, const char* path, CUjit_option*,
                                            void**, unsigned, CUlibraryOption*, void**, unsigned) {
    LOWGRAPH_ENTRY(driver);
    std::string image;
    if (path == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return read_image_file(path, &image) ? load(library, image.data()) : CUDA_ERROR_FILE_NOT_FOUND;
}

LOWGRAPH_API CUresult cuLibraryUnload(CUlibrary handle) {
    LOWGRAPH_ENTRY(context);
    Module* module = find_library(handle);
    if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (const CUresult refused = guard_unsafe(); refused != CUDA_SUCCESS) return refused;
    finish_all(entry.lock());  // kernels of the image may be running
    if (find_library(handle) != module) return CUDA_ERROR_INVALID_HANDLE;
    unload_module(*module);
    return CUDA_SUCCESS;
}

LOWGRAPH_API CUresult cuLibraryGetKernel(CUkernel* out, CUlibrary handle, const char* name) {
    LOWGRAPH_ENTRY(driver);
    Module* module = find_library(handle);
    if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (out == nullptr || name == nullptr) return CUDA_ERROR_INVALID_VALUE;
    Function* function = get_function(*module, name);
    *out = handle_of(function);
    return function != nullptr ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

LOWGRAPH_API CUresult cuLibraryGetKernelCount(unsigned* count, CUlibrary handle) {
    LOWGRAPH_ENTRY(driver);
    const Module* module = find_library(handle);
    if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *count = static_cast<unsigned>(module->kernels.size());
    return CUDA_SUCCESS;
}

LOWGRAPH_API CUresult cuLibraryEnumerateKernels(CUkernel* out, unsigned room, CUlibrary handle) {
    LOWGRAPH_ENTRY(driver);
    Module* module = find_library(handle);
    if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const size_t count = std::min<size_t>(room, module->kernels.size());
    for (size_t i = 0; i < count; ++i)
        out[i] = handle_of(get_function(*module, module->kernels[i]));
    return CUDA_SUCCESS;
}

LOWGRAPH_API CUresult cuLibraryGetModule(CUmodule* out, CUlibrary handle) {
    LOWGRAPH_ENTRY(context);
    if (find_library(handle) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *out = reinterpret_cast<CUmodule>(handle);
    return CUDA_SUCCESS;
}

LOWGRAPH_API CUresult cuLibraryGetGlobal(CUdeviceptr* address, size_t* bytes, CUlibrary handle,
                                         const char* name) {
    LOWGRAPH_ENTRY(context);
    Module* module = find_library(handle);
    if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
    uint64_t start = 0;
    size_t size = 0;
    if (!get_global(*module, name, &start, &size)) return CUDA_ERROR_NOT_FOUND;
    if (address != nullptr) *address = start;
    if (bytes != nullptr) *bytes = size;
    return CUDA_SUCCESS;
}

LOWGRAPH_API CUresult cuKernelGetFunction(CUfunction* out, CUkernel handle) {
    LOWGRAPH_ENTRY(context);
    Function* function = find_kernel(handle);
    if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    function->resident = true;
    *out = reinterpret_cast<CUfunction>(handle);
    return CUDA_SUCCESS;
}

LOWGRAPH_API CUresult cuKernelGetLibrary(CUlibrary* out, CUkernel handle) {
    LOWGRAPH_ENTRY(driver);
    const Function* function = find_kernel(handle);
    if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *out = reinterpret_cast<CUlibrary>(function->module);
    return CUDA_SUCCESS;
}

LOWGRAPH_API CUresult cuKernelGetName(const char** name, CUkernel handle) {
    LOWGRAPH_ENTRY(driver);
    const Function* function = find_kernel(handle);
    if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *name = function->name.c_str();
    return CUDA_SUCCESS;
}

LOWGRAPH_API CUresult cuKernelGetAttribute(int* value, CUfunction_attribute attribute,
                                           CUkernel handle, CUdevice dev) {
    LOWGRAPH_ENTRY(driver);
    const Function* function = find_kernel(handle);
    if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    return dev == 0 ? read_attribute(*function, attribute, value) : CUDA_ERROR_INVALID_DEVICE;
}

LOWGRAPH_API CUresult cuKernelSetAttribute(CUfunction_attribute attribute, int value,
                                           CUkernel handle, CUdevice dev) {
    LOWGRAPH_ENTRY(driver);
    Function* function = find_kernel(handle);
    if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    return dev == 0 ? write_attribute(*function, attribute, value) : CUDA_ERROR_INVALID_DEVICE;
}

LOWGRAPH_API CUresult cuKernelGetParamInfo(CUkernel handle, size_t index, size_t* offset,
                                           size_t* size) {
    LOWGRAPH_ENTRY(driver);
    const Function* function = find_kernel(handle);
    if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    return read_parameter(*function, index, offset, size);
}

std::span<const ProcEntry> lowgraph::library_procs() {
#define PROC(name, version)                           \
    {                                                 \
        #name, version, reinterpret_cast<void*>(name) \
    }
    static const ProcEntry rows[] = {
        PROC(cuLibraryLoadData, 12000),       PROC(cuLibraryLoadFromFile, 12000),
        PROC(cuLibraryUnload, 12000),         PROC(cuLibraryGetKernel, 12000),
        PROC(cuLibraryGetKernelCount, 12040), PROC(cuLibraryEnumerateKernels, 12040),
        PROC(cuLibraryGetModule, 12000),      PROC(cuLibraryGetGlobal, 12000),
        PROC(cuKernelGetFunction, 12000),     PROC(cuKernelGetLibrary, 12050),
        PROC(cuKernelGetName, 12030),         PROC(cuKernelGetAttribute, 12000),
        PROC(cuKernelSetAttribute, 12000),    PROC(cuKernelGetParamInfo, 12040),
    };
#undef PROC
    return rows;
}
