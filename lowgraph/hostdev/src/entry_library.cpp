// Libraries: modules without a context. With one device a library is its module and a CUkernel is a
// CUfunction, so that either handle can be launched.
#include "module_calls.h"
#include "proc_entry.h"

using namespace lowgraph;

namespace {

CUmodule module_of(CUlibrary library) { return reinterpret_cast<CUmodule>(library); }
CUmodule* module_of(CUlibrary* library) { return reinterpret_cast<CUmodule*>(library); }
CUfunction function_of(CUkernel kernel) { return reinterpret_cast<CUfunction>(kernel); }
CUfunction* function_of(CUkernel* kernel) { return reinterpret_cast<CUfunction*>(kernel); }

}  // namespace

LOWGRAPH_API CUresult cuLibraryLoadData(CUlibrary* library, const void* image, CUjit_option*,
                                        void**, unsigned, CUlibraryOption*, void**, unsigned) {
    LOWGRAPH_ENTRY(driver);
    return load_image(image, nullptr, module_of(library));
}

LOWGRAPH_API CUresult cuLibraryLoadFromFile(CUlibrary* library, const char* path, CUjit_option*,
                                            void**, unsigned, CUlibraryOption*, void**, unsigned) {
    LOWGRAPH_ENTRY(driver);
    return load_image_file(path, nullptr, module_of(library));
}

LOWGRAPH_API CUresult cuLibraryUnload(CUlibrary library) {
    LOWGRAPH_ENTRY(context);
    return unload(entry, module_of(library));
}

LOWGRAPH_API CUresult cuLibraryGetKernel(CUkernel* out, CUlibrary library, const char* name) {
    LOWGRAPH_ENTRY(driver);
    return name_kernel(module_of(library), name, function_of(out));
}

LOWGRAPH_API CUresult cuLibraryGetKernelCount(unsigned* count, CUlibrary library) {
    LOWGRAPH_ENTRY(driver);
    return count_kernels(module_of(library), count);
}

LOWGRAPH_API CUresult cuLibraryEnumerateKernels(CUkernel* out, unsigned room, CUlibrary library) {
    LOWGRAPH_ENTRY(driver);
    return list_kernels(module_of(library), room, function_of(out));
}

LOWGRAPH_API CUresult cuLibraryGetModule(CUmodule* out, CUlibrary library) {
    LOWGRAPH_ENTRY(context);
    if (find_module(module_of(library)) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *out = module_of(library);
    return CUDA_SUCCESS;
}

LOWGRAPH_API CUresult cuLibraryGetGlobal(CUdeviceptr* address, size_t* bytes, CUlibrary library,
                                         const char* name) {
    LOWGRAPH_ENTRY(context);
    return name_global(module_of(library), name, address, bytes);
}

LOWGRAPH_API CUresult cuKernelGetFunction(CUfunction* out, CUkernel kernel) {
    LOWGRAPH_ENTRY(context);
    Function* const function = find_function(function_of(kernel));
    if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    function->resident = true;
    *out = function_of(kernel);
    return CUDA_SUCCESS;
}

LOWGRAPH_API CUresult cuKernelGetLibrary(CUlibrary* out, CUkernel kernel) {
    LOWGRAPH_ENTRY(driver);
    return home_of(function_of(kernel), module_of(out));
}

LOWGRAPH_API CUresult cuKernelGetName(const char** name, CUkernel kernel) {
    LOWGRAPH_ENTRY(driver);
    return name_of(function_of(kernel), name);
}

LOWGRAPH_API CUresult cuKernelGetAttribute(int* value, CUfunction_attribute attribute,
                                           CUkernel kernel, CUdevice dev) {
    LOWGRAPH_ENTRY(driver);
    return dev == 0 ? attribute_of(function_of(kernel), attribute, value)
                    : CUDA_ERROR_INVALID_DEVICE;
}

LOWGRAPH_API CUresult cuKernelSetAttribute(CUfunction_attribute attribute, int value,
                                           CUkernel kernel, CUdevice dev) {
    LOWGRAPH_ENTRY(driver);
    return dev == 0 ? set_attribute_of(function_of(kernel), attribute, value)
                    : CUDA_ERROR_INVALID_DEVICE;
}

LOWGRAPH_API CUresult cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache, CUdevice dev) {
    LOWGRAPH_ENTRY(driver);
    return dev == 0 ? prefer_cache(function_of(kernel)) : CUDA_ERROR_INVALID_DEVICE;
}

LOWGRAPH_API CUresult cuKernelGetParamInfo(CUkernel kernel, size_t index, size_t* offset,
                                           size_t* size) {
    LOWGRAPH_ENTRY(driver);
    return parameter_of(function_of(kernel), index, offset, size);
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
        PROC(cuKernelSetAttribute, 12000),    PROC(cuKernelSetCacheConfig, 12000),
        PROC(cuKernelGetParamInfo, 12040),
    };
#undef PROC
    return rows;
}
