// Device and pinned host memory.
#include "capture.h"
#include "context.h"
#include "graph_memory.h"
#include "memory.h"
#include "queue.h"

using namespace lowgraph;

namespace {

constexpr unsigned host_alloc_flags =
    CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
constexpr unsigned host_register_flags = CU_MEMHOSTREGISTER_PORTABLE |
                                         CU_MEMHOSTREGISTER_DEVICEMAP |
                                         CU_MEMHOSTREGISTER_READ_ONLY | CU_MEMHOSTREGISTER_IOMEMORY;
constexpr size_t pitch_alignment = 512;

uint64_t number(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }

CUresult allocate_device(CUdeviceptr* out, size_t bytes) {
    if (out == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult refused = guard_unsafe(); refused != CUDA_SUCCESS) return refused;
    uint64_t address = 0;
    const CUresult code = allocate(RegionKind::device, bytes, 0, current_context(), &address);
    if (code == CUDA_SUCCESS) *out = address;
    return code;
}

CUresult allocate_host(void** out, size_t bytes, unsigned flags) {
    if (out == nullptr || (flags & ~host_alloc_flags) != 0) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult refused = guard_unsafe(); refused != CUDA_SUCCESS) return refused;
    *out = nullptr;
    if (bytes == 0) return CUDA_SUCCESS;
    uint64_t address = 0;
    const CUresult code = allocate(RegionKind::host, bytes, flags, current_context(), &address);
    if (code == CUDA_SUCCESS) *out = reinterpret_cast<void*>(address);
    return code;
}

bool is_start(uint64_t address, RegionKind kind) {
    Region region;
    if (!find_region(address, 1, &region) || region.address != address || region.kind != kind)
        return false;
    return region.state == RegionState::live || region.state == RegionState::reserved;
}

// Work in flight may use the memory: wait for it, look at the canaries while they are there, free.
CUresult free_when_idle(Entry& entry, uint64_t address) {
    finish_issued(entry.lock());
    check_memory();
    const CUresult code = release(address);
    return context_error() != CUDA_SUCCESS ? context_error() : code;
}

}  // namespace

LOWGRAPH_API CUresult cuMemAlloc_v2(CUdeviceptr* out, size_t bytes) {
    LOWGRAPH_ENTRY(context);
    return allocate_device(out, bytes);
}

LOWGRAPH_API CUresult cuMemAllocPitch_v2(CUdeviceptr* out, size_t* pitch, size_t width,
                                         size_t height, unsigned) {
    LOWGRAPH_ENTRY(context);
    if (pitch == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *pitch = (width + pitch_alignment - 1) / pitch_alignment * pitch_alignment;
    return allocate_device(out, *pitch * height);
}

LOWGRAPH_API CUresult cuMemFree_v2(CUdeviceptr address) {
    LOWGRAPH_ENTRY(memory);
    if (const CUresult refused = guard_unsafe(); refused != CUDA_SUCCESS) return refused;
    if (address == 0) return CUDA_SUCCESS;
    const bool of_graph = free_graph_memory(address);
    const bool pool = !of_graph && begin_free(address);
    const bool plain = is_start(address, RegionKind::device) || is_start(address, RegionKind::managed);
    if (!of_graph && !pool && !plain) return CUDA_ERROR_INVALID_VALUE;
    return free_when_idle(entry, address);
}

LOWGRAPH_API CUresult cuMemGetInfo_v2(size_t* free_bytes, size_t* total_bytes) {
    LOWGRAPH_ENTRY(context);
    if (free_bytes == nullptr || total_bytes == nullptr) return CUDA_ERROR_INVALID_VALUE;
    memory_info(free_bytes, total_bytes);
    return CUDA_SUCCESS;
}

LOWGRAPH_API CUresult cuMemGetAddressRange_v2(CUdeviceptr* base, size_t* bytes,
                                              CUdeviceptr address) {
    LOWGRAPH_ENTRY(context);
    Region region;
    if (!find_region(address, 1, &region)) return CUDA_ERROR_NOT_FOUND;
    if (base != nullptr) *base = region.address;
    if (bytes != nullptr) *bytes = region.bytes;
    return CUDA_SUCCESS;
}

LOWGRAPH_API CUresult cuMemHostAlloc(void** out, size_t bytes, unsigned flags) {
    LOWGRAPH_ENTRY(context);
    return allocate_host(out, bytes, flags);
}

LOWGRAPH_API CUresult cuMemAllocHost_v2(void** out, size_t bytes) {
    LOWGRAPH_ENTRY(context);
    return allocate_host(out, bytes, CU_MEMHOSTALLOC_DEVICEMAP);
}

LOWGRAPH_API CUresult cuMemFreeHost(void* pointer) {
    LOWGRAPH_ENTRY(memory);
    if (const CUresult refused = guard_unsafe(); refused != CUDA_SUCCESS) return refused;
    if (pointer == nullptr) return CUDA_SUCCESS;
    if (!is_start(number(pointer), RegionKind::host)) return CUDA_ERROR_INVALID_VALUE;
    return free_when_idle(entry, number(pointer));
}

LOWGRAPH_API CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* out, void* pointer,
                                                   unsigned flags) {
    LOWGRAPH_ENTRY(context);
    Region region;
    if (out == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    const bool known = find_region(number(pointer), 1, &region) &&
                       (region.kind == RegionKind::host || region.kind == RegionKind::registered);
    if (!known) return CUDA_ERROR_INVALID_VALUE;
    *out = number(pointer);  // unified addressing
    return CUDA_SUCCESS;
}

LOWGRAPH_API CUresult cuMemHostGetFlags(unsigned* flags, void* pointer) {
    LOWGRAPH_ENTRY(context);
    Region region;
    const bool known = find_region(number(pointer), 1, &region) && region.kind == RegionKind::host;
    if (flags == nullptr || !known) return CUDA_ERROR_INVALID_VALUE;
    *flags = region.flags | CU_MEMHOSTALLOC_DEVICEMAP;  // unified addressing maps all
    return CUDA_SUCCESS;
}

LOWGRAPH_API CUresult cuMemHostRegister_v2(void* pointer, size_t bytes, unsigned flags) {
    LOWGRAPH_ENTRY(context);
    if ((flags & ~host_register_flags) != 0) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult refused = guard_unsafe(); refused != CUDA_SUCCESS) return refused;
    return register_host(number(pointer), bytes, flags, current_context());
}

LOWGRAPH_API CUresult cuMemHostUnregister(void* pointer) {
    LOWGRAPH_ENTRY(memory);
    if (const CUresult refused = guard_unsafe(); refused != CUDA_SUCCESS) return refused;
    if (pointer == nullptr) return CUDA_ERROR_INVALID_VALUE;
    finish_issued(entry.lock());
    return unregister_host(number(pointer));
}
