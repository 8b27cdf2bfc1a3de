// What the device tells about the memory of graphs: what lies behind alloc nodes at the moment.
// Freed memory goes back at once, so that what is reserved is what is used, and nothing can be
// trimmed.
#include "capture.h"
#include "memory.h"

using namespace lowgraph;

namespace {

bool is_high_water(CUgraphMem_attribute attribute) {
    return attribute == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH ||
           attribute == CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH;
}

bool is_known(CUgraphMem_attribute attribute) {
    return is_high_water(attribute) || attribute == CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT ||
           attribute == CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT;
}

}  // namespace

LOWGRAPH_API CUresult cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attribute,
                                                   void* value) {
    LOWGRAPH_ENTRY(driver);
    if (device != 0) return CUDA_ERROR_INVALID_DEVICE;
    if (value == nullptr || !is_known(attribute)) return CUDA_ERROR_INVALID_VALUE;
    *static_cast<cuuint64_t*>(value) = graph_bytes(is_high_water(attribute));
    return CUDA_SUCCESS;
}

// Only a high-water mark can be set, and only to 0: back to what is in use.
LOWGRAPH_API CUresult cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attribute,
                                                   void* value) {
    LOWGRAPH_ENTRY(driver);
    if (device != 0) return CUDA_ERROR_INVALID_DEVICE;
    const bool good = value != nullptr && is_high_water(attribute) &&
                      *static_cast<const cuuint64_t*>(value) == 0;
    if (!good) return CUDA_ERROR_INVALID_VALUE;
    reset_graph_high_water();
    return CUDA_SUCCESS;
}

LOWGRAPH_API CUresult cuDeviceGraphMemTrim(CUdevice device) {
    LOWGRAPH_ENTRY(driver);
    if (device != 0) return CUDA_ERROR_INVALID_DEVICE;
    return guard_unsafe();
}
