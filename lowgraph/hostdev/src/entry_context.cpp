// Contexts: the primary one, contexts of a program's own, the thread's stack of current ones.
#include "capture.h"
#include "context.h"
#include "device.h"
#include "queue.h"

using namespace lowgraph;

namespace {

CUcontext handle_of(Context* context) { return reinterpret_cast<CUcontext>(context); }

// Defaults of the limits that a context knows; a CPU has no use for them, so they are only kept.
bool default_limit(CUlimit limit, size_t* value) {
    switch (limit) {
        case CU_LIMIT_STACK_SIZE: *value = 1024; return true;
        case CU_LIMIT_PRINTF_FIFO_SIZE: *value = 1 << 20; return true;
        case CU_LIMIT_MALLOC_HEAP_SIZE: *value = 8 << 20; return true;
        case CU_LIMIT_MAX_L2_FETCH_GRANULARITY: *value = 64; return true;
        case CU_LIMIT_PERSISTING_L2_CACHE_SIZE: *value = 0; return true;
        default: return false;
    }
}

CUresult create(CUcontext* out, unsigned flags, CUdevice device) {
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (device != 0) return CUDA_ERROR_INVALID_DEVICE;
    Context* context = create_context(false, flags);
    context_stack().push_back(context);
    *out = handle_of(context);
    return CUDA_SUCCESS;
}

CUresult synchronize(Entry& entry) {
    const CUresult refused = guard_context_sync();
    if (refused != CUDA_SUCCESS) return refused;
    finish_all(entry.lock());
    check_memory();
    return context_error();
}

}  // namespace

LOWGRAPH_API CUresult cuDevicePrimaryCtxRetain(CUcontext* out, CUdevice device) {
    LOWGRAPH_ENTRY(driver);
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (device != 0) return CUDA_ERROR_INVALID_DEVICE;
    *out = handle_of(retain_primary());
    return CUDA_SUCCESS;
}

LOWGRAPH_API CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
    LOWGRAPH_ENTRY(driver);
    return device == 0 ? release_primary(entry.lock()) : CUDA_ERROR_INVALID_DEVICE;
}

LOWGRAPH_API CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) {
    LOWGRAPH_ENTRY(driver);
    if (device != 0) return CUDA_ERROR_INVALID_DEVICE;
    reset_primary(entry.lock());
    return CUDA_SUCCESS;
}

LOWGRAPH_API CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* active) {
    LOWGRAPH_ENTRY(driver);
    if (device != 0) return CUDA_ERROR_INVALID_DEVICE;
    if (flags == nullptr || active == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *flags = primary_flags();
    *active = primary_context() != nullptr;
    return CUDA_SUCCESS;
}

LOWGRAPH_API CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned flags) {
    LOWGRAPH_ENTRY(driver);
    if (device != 0) return CUDA_ERROR_INVALID_DEVICE;
    primary_flags() = flags;
    if (primary_context() != nullptr) primary_context()->flags = flags;
    return CUDA_SUCCESS;
}

LOWGRAPH_API CUresult cuCtxCreate_v2(CUcontext* out, unsigned flags, CUdevice device) {
    LOWGRAPH_ENTRY(driver);
    return create(out, flags, device);
}

LOWGRAPH_API CUresult cuCtxCreate_v3(CUcontext* out, CUexecAffinityParam* affinity, int affinities,
                                     unsigned flags, CUdevice device) {
    LOWGRAPH_ENTRY(driver);
    if (affinity != nullptr || affinities != 0) return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
    return create(out, flags, device);
}

LOWGRAPH_API CUresult cuCtxCreate_v4(CUcontext* out, CUctxCreateParams* params, unsigned flags,
                                     CUdevice device) {
    LOWGRAPH_ENTRY(driver);
    const bool plain =
        params == nullptr || (params->numExecAffinityParams == 0 && params->cigParams == nullptr);
    return plain ? create(out, flags, device) : CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
}

LOWGRAPH_API CUresult cuCtxDestroy_v2(CUcontext handle) {
    LOWGRAPH_ENTRY(driver);
    Context* context = find_context(handle);
    if (context == nullptr || context->destroyed || context->primary)
        return CUDA_ERROR_INVALID_CONTEXT;
    destroy_context(*context, entry.lock());
    std::vector<Context*>& stack = context_stack();
    if (!stack.empty() && stack.back() == context) stack.pop_back();
    return CUDA_SUCCESS;
}

LOWGRAPH_API CUresult cuCtxSetCurrent(CUcontext handle) {
    LOWGRAPH_ENTRY(driver);
    std::vector<Context*>& stack = context_stack();
    if (!stack.empty()) stack.pop_back();
    if (handle == nullptr) return CUDA_SUCCESS;
    Context* context = find_context(handle);
    if (context == nullptr || context->destroyed) return CUDA_ERROR_INVALID_CONTEXT;
    stack.push_back(context);
    return CUDA_SUCCESS;
}

LOWGRAPH_API CUresult cuCtxPushCurrent_v2(CUcontext handle) {
    LOWGRAPH_ENTRY(driver);
    Context* context = find_context(handle);
    if (context == nullptr || context->destroyed) return CUDA_ERROR_INVALID_CONTEXT;
    context_stack().push_back(context);
    return CUDA_SUCCESS;
}

LOWGRAPH_API CUresult cuCtxPopCurrent_v2(CUcontext* out) {
    LOWGRAPH_ENTRY(driver);
    if (current_context() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    if (out != nullptr) *out = handle_of(current_context());
    context_stack().pop_back();
    return CUDA_SUCCESS;
}

LOWGRAPH_API CUresult cuCtxGetCurrent(CUcontext* out) {
    LOWGRAPH_ENTRY(driver);
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *out = handle_of(current_context());
    return CUDA_SUCCESS;
}

#undef cuCtxGetDevice
LOWGRAPH_API CUresult cuCtxGetDevice(CUdevice* device) {
    LOWGRAPH_ENTRY(driver);
    if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (current_context() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    *device = 0;
    return CUDA_SUCCESS;
}

#undef cuCtxSynchronize
LOWGRAPH_API CUresult cuCtxSynchronize() {
    LOWGRAPH_ENTRY(context);
    return synchronize(entry);
}

LOWGRAPH_API CUresult cuCtxGetFlags(unsigned* flags) {
    LOWGRAPH_ENTRY(context);
    if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *flags = current_context()->flags;
    return CUDA_SUCCESS;
}

LOWGRAPH_API CUresult cuCtxGetId(CUcontext handle, unsigned long long* id) {
    LOWGRAPH_ENTRY(driver);
    const Context* context = handle == nullptr ? current_context() : find_context(handle);
    if (id == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (context == nullptr || context->destroyed) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    *id = context->id;
    return CUDA_SUCCESS;
}

LOWGRAPH_API CUresult cuCtxGetApiVersion(CUcontext handle, unsigned* version) {
    LOWGRAPH_ENTRY(driver);
    const Context* context = handle == nullptr ? current_context() : find_context(handle);
    if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (context == nullptr || context->destroyed) return CUDA_ERROR_INVALID_CONTEXT;
    *version = 3020;
    return CUDA_SUCCESS;
}

LOWGRAPH_API CUresult cuCtxGetLimit(size_t* value, CUlimit limit) {
    LOWGRAPH_ENTRY(context);
    if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (!default_limit(limit, value)) return CUDA_ERROR_UNSUPPORTED_LIMIT;
    const auto& limits = current_context()->limits;
    const auto spot = limits.find(limit);
    if (spot != limits.end()) *value = spot->second;
    return CUDA_SUCCESS;
}

LOWGRAPH_API CUresult cuCtxSetLimit(CUlimit limit, size_t value) {
    LOWGRAPH_ENTRY(context);
    const CUresult refused = guard_unsafe();
    if (refused != CUDA_SUCCESS) return refused;
    size_t unused = 0;
    if (!default_limit(limit, &unused)) return CUDA_ERROR_UNSUPPORTED_LIMIT;
    current_context()->limits[limit] = value;
    return CUDA_SUCCESS;
}

LOWGRAPH_API CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
    LOWGRAPH_ENTRY(context);
    if (least != nullptr) *least = least_priority;
    if (greatest != nullptr) *greatest = greatest_priority;
    return CUDA_SUCCESS;
}

LOWGRAPH_API CUresult cuCtxGetCacheConfig(CUfunc_cache* config) {
    LOWGRAPH_ENTRY(context);
    if (config == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *config = CU_FUNC_CACHE_PREFER_NONE;
    return CUDA_SUCCESS;
}

LOWGRAPH_API CUresult cuCtxSetCacheConfig(CUfunc_cache) {
    LOWGRAPH_ENTRY(context);
    return CUDA_SUCCESS;  // a preference
}
