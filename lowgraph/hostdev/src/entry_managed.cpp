// Managed memory: both sides see it, which all memory of this device allows. Where it is to be is only
// kept, to be asked for.
#include <cstring>

#include "capture.h"
#include "context.h"
#include "memory.h"
#include "stream.h"

using namespace lowgraph;

// Of CUDA 13, which the headers of 12.9 do not declare.
extern "C" {
CUresult cuMemPrefetchBatchAsync(CUdeviceptr*, size_t*, size_t, CUmemLocation*, size_t*, size_t, unsigned long long,
                                 CUstream);
}

namespace {

// Places as they are told: the one device, the host, and nowhere in particular.
constexpr int device_place = 0, host_place = CU_DEVICE_CPU, no_place = CU_DEVICE_INVALID;

CUresult read_place(const CUmemLocation& given, int* place) {
    switch (given.type) {
        case CU_MEM_LOCATION_TYPE_DEVICE:
            *place = device_place;
            return given.id == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
        case CU_MEM_LOCATION_TYPE_HOST:
        case CU_MEM_LOCATION_TYPE_HOST_NUMA:
        case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT: *place = host_place; return CUDA_SUCCESS;
        default: return CUDA_ERROR_INVALID_VALUE;
    }
}

CUmemLocation of_number(CUdevice number) {
    if (number == CU_DEVICE_CPU) return {CU_MEM_LOCATION_TYPE_HOST, 0};
    return {CU_MEM_LOCATION_TYPE_DEVICE, number};
}

bool is_managed_range(uint64_t address, size_t bytes) {
    Region region;
    return bytes != 0 && find_region(address, bytes, &region) && region.kind == RegionKind::managed;
}

// No node: a capture of any mode ends.
CUresult prefetch(CUstream handle, uint64_t address, size_t bytes, const CUmemLocation& wanted) {
    Stream* const stream = find_stream(handle);
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (const CUresult refused = guard_uncapturable(*stream); refused != CUDA_SUCCESS) return refused;
    int place = no_place;
    if (const CUresult bad = read_place(wanted, &place); bad != CUDA_SUCCESS) return bad;
    if (!is_managed_range(address, bytes)) return CUDA_ERROR_INVALID_VALUE;
    note_advice(address, [place](Advice& advice) { advice.prefetched = place; });
    return CUDA_SUCCESS;
}

CUresult advise(uint64_t address, size_t bytes, CUmem_advise advice, const CUmemLocation& wanted) {
    if (const CUresult refused = guard_unsafe(); refused != CUDA_SUCCESS) return refused;
    int place = no_place;
    const bool placed = advice == CU_MEM_ADVISE_SET_PREFERRED_LOCATION ||
                        advice == CU_MEM_ADVISE_SET_ACCESSED_BY || advice == CU_MEM_ADVISE_UNSET_ACCESSED_BY;
    if (placed && read_place(wanted, &place) != CUDA_SUCCESS) return CUDA_ERROR_INVALID_VALUE;
    const bool known = advice >= CU_MEM_ADVISE_SET_READ_MOSTLY && advice <= CU_MEM_ADVISE_UNSET_ACCESSED_BY;
    if (!known || !is_managed_range(address, bytes)) return CUDA_ERROR_INVALID_VALUE;
    note_advice(address, [advice, place](Advice& kept) {
        switch (advice) {
            case CU_MEM_ADVISE_SET_READ_MOSTLY: kept.read_mostly = true; break;
            case CU_MEM_ADVISE_UNSET_READ_MOSTLY: kept.read_mostly = false; break;
            case CU_MEM_ADVISE_SET_PREFERRED_LOCATION: kept.preferred = place; break;
            case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION: kept.preferred = no_place; break;
            case CU_MEM_ADVISE_SET_ACCESSED_BY: kept.accessed = place; break;
            default: kept.accessed = no_place; break;
        }
    });
    return CUDA_SUCCESS;
}

}  // namespace

LOWGRAPH_API CUresult cuMemAllocManaged(CUdeviceptr* out, size_t bytes, unsigned flags) {
    LOWGRAPH_ENTRY(context);
    const bool known = flags == CU_MEM_ATTACH_GLOBAL || flags == CU_MEM_ATTACH_HOST;
    if (out == nullptr || bytes == 0 || !known) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult refused = guard_unsafe(); refused != CUDA_SUCCESS) return refused;
    uint64_t address = 0;
    const CUresult code = allocate(RegionKind::managed, bytes, flags, current_context(), &address);
    if (code == CUDA_SUCCESS) *out = address;
    return code;
}

LOWGRAPH_API CUresult cuMemPrefetchAsync(CUdeviceptr address, size_t bytes, CUdevice place, CUstream stream) {
    LOWGRAPH_STREAM_ENTRY(stream);
    return prefetch(stream, address, bytes, of_number(place));
}

LOWGRAPH_API CUresult cuMemPrefetchAsync_v2(CUdeviceptr address, size_t bytes, CUmemLocation place, unsigned flags,
                                            CUstream stream) {
    LOWGRAPH_STREAM_ENTRY(stream);
    return flags == 0 ? prefetch(stream, address, bytes, place) : CUDA_ERROR_INVALID_VALUE;
}

// The places come with the first range that each is for. Never on the legacy stream.
LOWGRAPH_API CUresult cuMemPrefetchBatchAsync(CUdeviceptr* addresses, size_t* sizes, size_t count,
                                              CUmemLocation* places, size_t* firsts, size_t place_count,
                                              unsigned long long flags, CUstream handle) {
    LOWGRAPH_STREAM_ENTRY(handle);
    const Stream* const stream = find_stream(handle);
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    const bool whole = addresses != nullptr && sizes != nullptr && places != nullptr && firsts != nullptr;
    const bool good = whole && count != 0 && place_count != 0 && place_count <= count && flags == 0;
    if (stream->is_legacy || !good || firsts[0] != 0) return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0, place = 0; i < count; ++i) {
        if (place + 1 < place_count && firsts[place + 1] == i) ++place;
        const CUresult code = prefetch(handle, addresses[i], sizes[i], places[place]);
        if (code != CUDA_SUCCESS) return code;
    }
    return CUDA_SUCCESS;
}

LOWGRAPH_API CUresult cuMemAdvise(CUdeviceptr address, size_t bytes, CUmem_advise advice, CUdevice place) {
    LOWGRAPH_ENTRY(context);
    return advise(address, bytes, advice, of_number(place));
}

LOWGRAPH_API CUresult cuMemAdvise_v2(CUdeviceptr address, size_t bytes, CUmem_advise advice, CUmemLocation place) {
    LOWGRAPH_ENTRY(context);
    return advise(address, bytes, advice, place);
}

LOWGRAPH_API CUresult cuMemRangeGetAttribute(void* out, size_t size, CUmem_range_attribute attribute,
                                             CUdeviceptr address, size_t bytes) {
    LOWGRAPH_ENTRY(context);
    Region region;
    const bool managed = bytes != 0 && find_region(address, bytes, &region) && region.kind == RegionKind::managed;
    if (out == nullptr || size != sizeof(int) || !managed) return CUDA_ERROR_INVALID_VALUE;
    int answer = no_place;
    switch (attribute) {
        case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY: answer = region.advice.read_mostly; break;
        case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION: answer = region.advice.preferred; break;
        case CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY: answer = region.advice.accessed; break;
        case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION: answer = region.advice.prefetched; break;
        default: return CUDA_ERROR_INVALID_VALUE;
    }
    std::memcpy(out, &answer, sizeof answer);
    return CUDA_SUCCESS;
}

// Which stream may use the memory is for machines where the host must not meanwhile: the H200 is none.
LOWGRAPH_API CUresult cuStreamAttachMemAsync(CUstream handle, CUdeviceptr address, size_t bytes, unsigned flags) {
    LOWGRAPH_STREAM_ENTRY(handle);
    Stream* const stream = find_stream(handle);
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (const CUresult refused = guard_stream_wait(*stream, false); refused != CUDA_SUCCESS) return refused;
    const bool known = flags == CU_MEM_ATTACH_GLOBAL || flags == CU_MEM_ATTACH_HOST || flags == CU_MEM_ATTACH_SINGLE;
    const bool good = known && is_managed_range(address, bytes != 0 ? bytes : 1);
    return good ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

// Whether synchronous calls wait for copies of the memory: they always do here.
LOWGRAPH_API CUresult cuPointerSetAttribute(const void* value, CUpointer_attribute attribute, CUdeviceptr address) {
    LOWGRAPH_ENTRY(handle);
    if (const CUresult refused = guard_unsafe(); refused != CUDA_SUCCESS) return refused;
    Region region;
    const bool good = value != nullptr && attribute == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS &&
                      find_region(address, 1, &region);
    return good ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
