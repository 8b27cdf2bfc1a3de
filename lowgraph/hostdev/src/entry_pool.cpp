// Stream-ordered memory. There is one pool of memory; a CUmemoryPool is a handle with thresholds.
#include "capture.h"
#include "context.h"
#include "graph_memory.h"
#include "memory.h"
#include "pool.h"
#include "queue.h"
#include "stream.h"

using namespace lowgraph;

namespace {

// Of CUDA 13, which the headers of 12.9 do not declare.
constexpr auto managed_type = static_cast<CUmemAllocationType>(2);

struct Pool {
    PoolKind kind = PoolKind::device;
    bool live = true;
    uint64_t release_threshold = 0;
    int reuse[3] = {1, 1, 1};  // follow events, opportunistic, internal dependencies
};

struct Pools {
    Pool standard;
    Pool* current = &standard;
    std::vector<std::unique_ptr<Pool>> made;
};

Pools& pools() {
    static Pools* const instance = new Pools;
    return *instance;
}

CUmemoryPool handle_of(Pool* pool) { return reinterpret_cast<CUmemoryPool>(pool); }

Pool* find_pool(CUmemoryPool handle) {
    auto* pool = reinterpret_cast<Pool*>(handle);
    if (pool == &pools().standard) return pool;
    for (const auto& made : pools().made)
        if (made.get() == pool && made->live) return pool;
    return nullptr;
}

// On a capturing stream the address becomes an alloc node's; else it is charged to the device now.
// No node allocates from a pool of the host's, and the capture goes on.
CUresult allocate_async(Entry& entry, CUdeviceptr* out, size_t bytes, Pool* pool, CUstream handle) {
    Stream* stream = find_stream(handle);
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *out = 0;
    if (bytes == 0) return CUDA_SUCCESS;
    const bool captured = stream->capture != nullptr;
    if (captured && pool->kind == PoolKind::host) {
        const CUresult standing = standing_refusal(*stream);
        return standing != CUDA_SUCCESS ? standing : CUDA_ERROR_NOT_SUPPORTED;
    }
    uint64_t address = 0;
    const CUmemoryPool taken_from = captured ? nullptr : handle_of(pool);  // a graph's memory is no pool's
    const CUresult full = reserve(bytes, !captured, pool->kind, taken_from, &address);
    if (full != CUDA_SUCCESS) return full;
    Work work = AllocWork{address, bytes};
    const Route route = route_work(*stream, std::move(work));
    if (route.kind == Route::refused) {
        if (captured) abandon(address);
        else release(address);
        return route.code;
    }
    *out = address;
    return route.kind == Route::recorded ? CUDA_SUCCESS
                                         : submit(entry, *stream, AllocWork{address, bytes});
}

bool is_plain_allocation(uint64_t address) {
    Region region;
    return find_region(address, 1, &region) && region.address == address &&
           region.kind == RegionKind::device && region.state == RegionState::live;
}

CUresult free_async(Entry& entry, uint64_t address, CUstream handle) {
    Stream* stream = find_stream(handle);
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (address == 0) return CUDA_SUCCESS;
    Work work = FreeWork{address};
    const Route route = route_work(*stream, std::move(work));
    if (route.kind != Route::run) return route.code;
    if (free_graph_memory(address) || begin_free(address))
        return submit(entry, *stream, FreeWork{address});
    if (is_managed(address)) return CUDA_ERROR_NOT_SUPPORTED;
    if (!is_plain_allocation(address)) return CUDA_ERROR_INVALID_VALUE;
    mark_closing(address);
    return submit(entry, *stream, FreeWork{address});
}

CUresult read_attribute(const Pool& pool, CUmemPool_attribute attribute, void* value) {
    auto* wide = static_cast<cuuint64_t*>(value);
    auto* narrow = static_cast<int*>(value);
    switch (attribute) {
        case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
            *narrow = pool.reuse[0];
            return CUDA_SUCCESS;
        case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
            *narrow = pool.reuse[1];
            return CUDA_SUCCESS;
        case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
            *narrow = pool.reuse[2];
            return CUDA_SUCCESS;
        case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD: *wide = pool.release_threshold; return CUDA_SUCCESS;
        case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:  // freed memory goes back at once: reserved is
                                                    // used
        case CU_MEMPOOL_ATTR_USED_MEM_CURRENT: *wide = pool_bytes(false); return CUDA_SUCCESS;
        case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
        case CU_MEMPOOL_ATTR_USED_MEM_HIGH: *wide = pool_bytes(true); return CUDA_SUCCESS;
        default: return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult write_attribute(Pool& pool, CUmemPool_attribute attribute, const void* value) {
    const auto* wide = static_cast<const cuuint64_t*>(value);
    const auto* narrow = static_cast<const int*>(value);
    switch (attribute) {
        case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
            pool.reuse[0] = *narrow;
            return CUDA_SUCCESS;
        case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
            pool.reuse[1] = *narrow;
            return CUDA_SUCCESS;
        case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
            pool.reuse[2] = *narrow;
            return CUDA_SUCCESS;
        case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD: pool.release_threshold = *wide; return CUDA_SUCCESS;
        case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
        case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
            if (*wide != 0) return CUDA_ERROR_INVALID_VALUE;
            reset_pool_high_water();
            return CUDA_SUCCESS;
        default: return CUDA_ERROR_INVALID_VALUE;
    }
}

// False: there is no such pool. Managed memory may be anywhere.
bool read_kind(const CUmemPoolProps& props, PoolKind* kind) {
    const CUmemLocationType type = props.location.type;
    const bool on_device = type == CU_MEM_LOCATION_TYPE_DEVICE;
    if (on_device && props.location.id != 0) return false;
    if (props.allocType == managed_type) {
        *kind = PoolKind::managed;
        return true;
    }
    const bool on_host = type == CU_MEM_LOCATION_TYPE_HOST || type == CU_MEM_LOCATION_TYPE_HOST_NUMA;
    *kind = on_device ? PoolKind::device : PoolKind::host;
    return props.allocType == CU_MEM_ALLOCATION_TYPE_PINNED && (on_device || on_host);
}

CUresult hand_out(CUmemoryPool* out, Pool* pool, CUdevice dev) {
    if (dev != 0) return CUDA_ERROR_INVALID_DEVICE;
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *out = handle_of(pool);
    return CUDA_SUCCESS;
}

}  // namespace

namespace lowgraph {

CUmemoryPool default_pool() { return handle_of(&pools().standard); }
CUmemoryPool current_pool() { return handle_of(pools().current); }
bool is_pool(CUmemoryPool handle) { return find_pool(handle) != nullptr; }

bool set_current_pool(CUmemoryPool handle) {
    Pool* pool = find_pool(handle);
    if (pool != nullptr) pools().current = pool;
    return pool != nullptr;
}

}  // namespace lowgraph

LOWGRAPH_API CUresult cuMemAllocAsync(CUdeviceptr* out, size_t bytes, CUstream stream) {
    LOWGRAPH_STREAM_ENTRY(stream);
    return allocate_async(entry, out, bytes, pools().current, stream);
}

LOWGRAPH_API CUresult cuMemAllocFromPoolAsync(CUdeviceptr* out, size_t bytes, CUmemoryPool pool,
                                              CUstream stream) {
    LOWGRAPH_STREAM_ENTRY(stream);
    Pool* const found = find_pool(pool);
    return found != nullptr ? allocate_async(entry, out, bytes, found, stream)
                            : CUDA_ERROR_INVALID_VALUE;
}

LOWGRAPH_API CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream) {
    LOWGRAPH_STREAM_ENTRY(stream);
    return free_async(entry, address, stream);
}

LOWGRAPH_API CUresult cuDeviceGetDefaultMemPool(CUmemoryPool* out, CUdevice dev) {
    LOWGRAPH_ENTRY(driver);
    return hand_out(out, &pools().standard, dev);
}

LOWGRAPH_API CUresult cuDeviceGetMemPool(CUmemoryPool* out, CUdevice dev) {
    LOWGRAPH_ENTRY(driver);
    return hand_out(out, pools().current, dev);
}

LOWGRAPH_API CUresult cuDeviceSetMemPool(CUdevice dev, CUmemoryPool handle) {
    LOWGRAPH_ENTRY(driver);
    if (dev != 0) return CUDA_ERROR_INVALID_DEVICE;
    return set_current_pool(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

LOWGRAPH_API CUresult cuMemPoolCreate(CUmemoryPool* out, const CUmemPoolProps* props) {
    LOWGRAPH_ENTRY(driver);
    if (out == nullptr || props == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult refused = guard_unsafe(); refused != CUDA_SUCCESS) return refused;
    PoolKind kind = PoolKind::device;
    if (!read_kind(*props, &kind)) return CUDA_ERROR_INVALID_VALUE;
    if (props->handleTypes != CU_MEM_HANDLE_TYPE_NONE) return CUDA_ERROR_NOT_SUPPORTED;
    pools().made.push_back(std::make_unique<Pool>());
    pools().made.back()->kind = kind;
    *out = handle_of(pools().made.back().get());
    return CUDA_SUCCESS;
}

LOWGRAPH_API CUresult cuMemPoolDestroy(CUmemoryPool handle) {
    LOWGRAPH_ENTRY(driver);
    Pool* pool = find_pool(handle);
    if (pool == nullptr || pool == &pools().standard) return CUDA_ERROR_INVALID_VALUE;
    if (pools().current == pool) pools().current = &pools().standard;
    pool->live = false;
    return CUDA_SUCCESS;
}

LOWGRAPH_API CUresult cuMemPoolGetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute,
                                            void* value) {
    LOWGRAPH_ENTRY(driver);
    const Pool* pool = find_pool(handle);
    return pool != nullptr && value != nullptr ? read_attribute(*pool, attribute, value)
                                               : CUDA_ERROR_INVALID_VALUE;
}

LOWGRAPH_API CUresult cuMemPoolSetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute,
                                            void* value) {
    LOWGRAPH_ENTRY(driver);
    Pool* pool = find_pool(handle);
    return pool != nullptr && value != nullptr ? write_attribute(*pool, attribute, value)
                                               : CUDA_ERROR_INVALID_VALUE;
}

// Freed memory is never kept: there is nothing to trim.
LOWGRAPH_API CUresult cuMemPoolTrimTo(CUmemoryPool handle, size_t) {
    LOWGRAPH_ENTRY(driver);
    if (const CUresult refused = guard_unsafe(); refused != CUDA_SUCCESS) return refused;
    return find_pool(handle) != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

LOWGRAPH_API CUresult cuMemPoolGetAccess(CUmemAccess_flags* flags, CUmemoryPool handle,
                                         CUmemLocation* location) {
    LOWGRAPH_ENTRY(driver);
    const bool good = flags != nullptr && location != nullptr && find_pool(handle) != nullptr;
    if (!good || location->type != CU_MEM_LOCATION_TYPE_DEVICE || location->id != 0)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    return CUDA_SUCCESS;
}
