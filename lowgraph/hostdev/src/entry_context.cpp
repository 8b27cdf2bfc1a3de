// Contexts: the primary one, contexts of a program's own, the thread's stack of current ones.
#include "capture.h"
#include "context.h"
#include "device.h"
#include "queue.h"

using namespace lowgraph;

// Of CUDA 13, which the headers of 12.9 do not declare.
extern "C" {
CUresult cuCtxGetDevice_v2(CUdevice*, CUcontext);
CUresult cuCtxSynchronize_v2(CUcontext);
}

namespace {

CUcontext handle_of(Context* context) { return reinterpret_cast<CUcontext>(context); }

CUresult create(CUcontext* out, unsigned flags, CUdevice device) {
    if (out == nullptr || !are_context_flags(flags)) return CUDA_ERROR_INVALID_VALUE;
    if (device != 0) return CUDA_ERROR_INVALID_DEVICE;
    Context* context = create_context(false, flags);
    context_stack().push_back(context);
    *out = handle_of(context);
    return CUDA_SUCCESS;
}

// A call may name its context (CUDA 13); null is the current one. Null: neither is a live context.
const Context* context_or_current(CUcontext handle) {
    const Context* context = handle == nullptr ? current_context() : find_context(handle);
    return context == nullptr || context->destroyed ? nullptr : context;
}

CUresult synchronize(Entry& entry, const Context& context) {
    const CUresult refused = guard_context_sync(context);
    if (refused != CUDA_SUCCESS) return refused;
    finish_issued(context, entry.lock());
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
    if (!are_context_flags(flags)) return CUDA_ERROR_INVALID_VALUE;
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
    if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
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
    Context* const context = find_context(handle);
    const bool is_there = context != nullptr && !context->destroyed;
    if (handle != nullptr && !is_there) return CUDA_ERROR_INVALID_CONTEXT;
    std::vector<Context*>& stack = context_stack();
    if (!stack.empty()) stack.pop_back();
    if (is_there) stack.push_back(context);
    return CUDA_SUCCESS;
}

LOWGRAPH_API CUresult cuCtxPushCurrent_v2(CUcontext handle) {
    LOWGRAPH_ENTRY(driver);
    if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
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

LOWGRAPH_API CUresult cuCtxGetDevice_v2(CUdevice* device, CUcontext handle) {
    LOWGRAPH_ENTRY(driver);
    if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (context_or_current(handle) == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    *device = 0;
    return CUDA_SUCCESS;
}

#undef cuCtxSynchronize
LOWGRAPH_API CUresult cuCtxSynchronize() {
    LOWGRAPH_ENTRY(context);
    return synchronize(entry, *current_context());
}

LOWGRAPH_API CUresult cuCtxSynchronize_v2(CUcontext handle) {
    LOWGRAPH_ENTRY(driver);
    const Context* const context = context_or_current(handle);
    if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    if (const CUresult broken = context_error(); broken != CUDA_SUCCESS) return broken;
    return synchronize(entry, *context);
}

// Of a destroyed context too.
LOWGRAPH_API CUresult cuCtxGetFlags(unsigned* flags) {
    LOWGRAPH_ENTRY(handle);
    if (current_context() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
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

LOWGRAPH_API CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
    LOWGRAPH_ENTRY(context);
    if (least != nullptr) *least = least_priority;
    if (greatest != nullptr) *greatest = greatest_priority;
    return CUDA_SUCCESS;
}
