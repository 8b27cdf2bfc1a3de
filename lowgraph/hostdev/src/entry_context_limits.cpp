// Limits and preferences of a context. A CPU has no use for them, so they are only kept.
#include "capture.h"
#include "context.h"

using namespace lowgraph;

namespace {

// Defaults of the limits that a context knows.
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

}  // namespace

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

LOWGRAPH_API CUresult cuCtxSetFlags(unsigned flags) {
    LOWGRAPH_ENTRY(context);
    if (!are_context_flags(flags)) return CUDA_ERROR_INVALID_VALUE;
    current_context()->flags = flags;  // how to wait: kept, not acted on
    return CUDA_SUCCESS;
}

// With one device no context is a peer of another.
LOWGRAPH_API CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags) {
    LOWGRAPH_ENTRY(context);
    const Context* const context = find_context(peer);
    if (context == nullptr || context->destroyed) return CUDA_ERROR_INVALID_CONTEXT;
    return flags == 0 ? CUDA_ERROR_PEER_ACCESS_UNSUPPORTED : CUDA_ERROR_INVALID_VALUE;
}

LOWGRAPH_API CUresult cuCtxDisablePeerAccess(CUcontext peer) {
    LOWGRAPH_ENTRY(context);
    const Context* const context = find_context(peer);
    if (context == nullptr || context->destroyed) return CUDA_ERROR_INVALID_CONTEXT;
    return CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
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
