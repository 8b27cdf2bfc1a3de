// What unified addressing tells about a pointer.
#include <cstring>

#include "context.h"
#include "memory.h"
#include "pool.h"

using namespace lowgraph;

namespace {

template <typename T>
CUresult answer(void* out, T value) {
    std::memcpy(out, &value, sizeof value);
    return CUDA_SUCCESS;
}

// Memory of a graph is unknown until a launch has allocated it.
bool find_pointer(uint64_t address, Region* region) {
    if (!find_region(address, 1, region)) return false;
    return !(region->of_graph && region->state == RegionState::reserved);
}

// What is true or false takes four bytes here (recorded).
CUresult read_attribute(const Region& region, uint64_t address, CUpointer_attribute attribute,
                        void* out) {
    switch (attribute) {
        case CU_POINTER_ATTRIBUTE_CONTEXT:
            return answer(out, region.owner);
        case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
            return answer(out,
                          unsigned{is_host_memory(region) ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE});
        case CU_POINTER_ATTRIBUTE_DEVICE_POINTER: return answer(out, CUdeviceptr{address});
        case CU_POINTER_ATTRIBUTE_HOST_POINTER: {
            const bool has_one = is_host_memory(region) || is_managed_memory(region);
            answer(out, has_one ? address : uint64_t{0});  // a refusal writes its place too (recorded)
            return has_one ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
        }
        case CU_POINTER_ATTRIBUTE_BUFFER_ID:
            return answer(out, static_cast<unsigned long long>(region.id));
        case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: return answer(out, 0);
        case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: return answer(out, CUdeviceptr{region.address});
        case CU_POINTER_ATTRIBUTE_RANGE_SIZE: return answer(out, region.bytes);
        case CU_POINTER_ATTRIBUTE_MAPPED: return answer(out, int{true});
        case CU_POINTER_ATTRIBUTE_IS_MANAGED: return answer(out, int{is_managed_memory(region)});
        case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
        case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE: return answer(out, int{false});
        case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
            return answer(out, region.taken_from);
        default: return CUDA_ERROR_INVALID_VALUE;
    }
}

// The many-at-once form's size of an attribute, that of the type in cuda.h: what it answers without
// knowing the pointer is zeros.
size_t attribute_bytes(CUpointer_attribute attribute) {
    switch (attribute) {
        case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: return 4;
        case CU_POINTER_ATTRIBUTE_MAPPED:
        case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
        case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE: return 1;
        default: return 8;
    }
}

}  // namespace

LOWGRAPH_API CUresult cuPointerGetAttribute(void* out, CUpointer_attribute attribute,
                                            CUdeviceptr address) {
    LOWGRAPH_ENTRY(handle);
    Region region;
    if (out == nullptr || !find_pointer(address, &region)) return CUDA_ERROR_INVALID_VALUE;
    return read_attribute(region, address, attribute, out);
}

LOWGRAPH_API CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute* attributes,
                                             void** out, CUdeviceptr address) {
    LOWGRAPH_ENTRY(handle);
    if (attributes == nullptr || out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    Region region;
    const bool known = find_pointer(address, &region);
    for (unsigned i = 0; i < count; ++i) {
        uint64_t value = 0;
        const bool told = known && read_attribute(region, address, attributes[i], &value) == CUDA_SUCCESS;
        if (!told) value = 0;
        std::memcpy(out[i], &value, attribute_bytes(attributes[i]));
    }
    return CUDA_SUCCESS;
}
