// Memory pools by location (CUDA 13), and who may use them: the one device. Pools of host memory
// are not there: 801 NOT_SUPPORTED.
#include "entry.h"
#include "pool.h"

using namespace lowgraph;

// Of CUDA 13, which the headers of 12.9 do not declare.
extern "C" {
CUresult cuMemGetDefaultMemPool(CUmemoryPool*, CUmemLocation*, CUmemAllocationType);
CUresult cuMemGetMemPool(CUmemoryPool*, CUmemLocation*, CUmemAllocationType);
CUresult cuMemSetMemPool(CUmemLocation*, CUmemAllocationType, CUmemoryPool);
}

namespace {

CUresult check_place(const CUmemLocation* place, CUmemAllocationType type) {
    if (place == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (place->type != CU_MEM_LOCATION_TYPE_DEVICE || type != CU_MEM_ALLOCATION_TYPE_PINNED)
        return CUDA_ERROR_NOT_SUPPORTED;
    return place->id == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult hand_out(CUmemoryPool* out, const CUmemLocation* place, CUmemAllocationType type,
                  CUmemoryPool pool) {
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const CUresult code = check_place(place, type);
    if (code == CUDA_SUCCESS) *out = pool;
    return code;
}

}  // namespace

LOWGRAPH_API CUresult cuMemGetDefaultMemPool(CUmemoryPool* out, CUmemLocation* place,
                                             CUmemAllocationType type) {
    LOWGRAPH_ENTRY(driver);
    return hand_out(out, place, type, default_pool());
}

LOWGRAPH_API CUresult cuMemGetMemPool(CUmemoryPool* out, CUmemLocation* place,
                                      CUmemAllocationType type) {
    LOWGRAPH_ENTRY(driver);
    return hand_out(out, place, type, current_pool());
}

LOWGRAPH_API CUresult cuMemSetMemPool(CUmemLocation* place, CUmemAllocationType type,
                                      CUmemoryPool pool) {
    LOWGRAPH_ENTRY(driver);
    if (const CUresult code = check_place(place, type); code != CUDA_SUCCESS) return code;
    return set_current_pool(pool) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

// The device reads and writes its own pools, and there is nobody else to let in or keep out.
LOWGRAPH_API CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc* map,
                                         size_t count) {
    LOWGRAPH_ENTRY(driver);
    if (!is_pool(pool) || (map == nullptr && count != 0)) return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; ++i) {
        if (map[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_INVALID_VALUE;
        if (map[i].location.id != 0) return CUDA_ERROR_INVALID_DEVICE;
        if (map[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE) return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}
