// Reserved addresses and the memory that is mapped to them. They need no context, and no capture minds
// them: a graph sees the addresses alone.
#include "mapped.h"

using namespace lowgraph;

namespace {

CUresult check_properties(const CUmemAllocationProp* given) {
    if (given == nullptr || given->type != CU_MEM_ALLOCATION_TYPE_PINNED) return CUDA_ERROR_INVALID_VALUE;
    if (given->location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_NOT_SUPPORTED;
    if (given->location.id != 0) return CUDA_ERROR_INVALID_DEVICE;
    const bool shared = given->requestedHandleTypes != CU_MEM_HANDLE_TYPE_NONE;
    return shared ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS;  // no other process
}

CUresult check_place(const CUmemLocation& place) {
    if (place.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_NOT_SUPPORTED;
    return place.id == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

}  // namespace

// A wish for an address is a wish: `wanted` is not looked at.
LOWGRAPH_API CUresult cuMemAddressReserve(CUdeviceptr* out, size_t bytes, size_t alignment, CUdeviceptr,
                                          unsigned long long flags) {
    LOWGRAPH_ENTRY(driver);
    if (out == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    uint64_t start = 0;
    const CUresult code = reserve_range(bytes, alignment, &start);
    if (code == CUDA_SUCCESS) *out = start;
    return code;
}

LOWGRAPH_API CUresult cuMemAddressFree(CUdeviceptr start, size_t bytes) {
    LOWGRAPH_ENTRY(driver);
    return free_range(start, bytes);
}

LOWGRAPH_API CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t bytes,
                                  const CUmemAllocationProp* properties, unsigned long long flags) {
    LOWGRAPH_ENTRY(driver);
    if (handle == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult bad = check_properties(properties); bad != CUDA_SUCCESS) return bad;
    return create_physical(bytes, handle);
}

LOWGRAPH_API CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
    LOWGRAPH_ENTRY(driver);
    return release_physical(handle);
}

LOWGRAPH_API CUresult cuMemMap(CUdeviceptr start, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                               unsigned long long flags) {
    LOWGRAPH_ENTRY(driver);
    return flags == 0 ? map_physical(start, bytes, offset, handle) : CUDA_ERROR_INVALID_VALUE;
}

LOWGRAPH_API CUresult cuMemUnmap(CUdeviceptr start, size_t bytes) {
    LOWGRAPH_ENTRY(driver);
    return unmap_range(start, bytes, entry.lock());
}

LOWGRAPH_API CUresult cuMemSetAccess(CUdeviceptr start, size_t bytes, const CUmemAccessDesc* wanted, size_t count) {
    LOWGRAPH_ENTRY(driver);
    if (wanted == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; ++i)
        if (const CUresult bad = check_place(wanted[i].location); bad != CUDA_SUCCESS) return bad;
    return set_range_access(start, bytes, wanted[count - 1].flags, entry.lock());
}

LOWGRAPH_API CUresult cuMemGetAccess(unsigned long long* flags, const CUmemLocation* place, CUdeviceptr address) {
    LOWGRAPH_ENTRY(driver);
    if (flags == nullptr || place == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const CUresult bad = check_place(*place);
    return bad == CUDA_SUCCESS ? range_access(address, flags) : bad;
}

LOWGRAPH_API CUresult cuMemGetAllocationGranularity(size_t* bytes, const CUmemAllocationProp* properties,
                                                    CUmemAllocationGranularity_flags) {
    LOWGRAPH_ENTRY(driver);
    if (bytes == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult bad = check_properties(properties); bad != CUDA_SUCCESS) return bad;
    *bytes = map_piece;
    return CUDA_SUCCESS;
}

LOWGRAPH_API CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* properties,
                                                             CUmemGenericAllocationHandle handle) {
    LOWGRAPH_ENTRY(driver);
    if (properties == nullptr || !is_physical(handle)) return CUDA_ERROR_INVALID_VALUE;
    *properties = CUmemAllocationProp{};
    properties->type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties->location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    return CUDA_SUCCESS;
}

LOWGRAPH_API CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* address) {
    LOWGRAPH_ENTRY(driver);
    if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return physical_at(reinterpret_cast<uint64_t>(address), handle);
}
