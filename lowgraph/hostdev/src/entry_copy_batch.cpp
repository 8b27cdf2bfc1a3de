// Many copies in one call. No graph has a node of them: a capture refuses the call, and goes on.
#include "capture_state.h"
#include "context.h"
#include "copy.h"
#include "memory.h"
#include "stream.h"

using namespace lowgraph;

// CUDA 13's, which the headers of 12.9 do not declare: without the place of what failed.
extern "C" {
CUresult cuMemcpyBatchAsync_v2(CUdeviceptr*, CUdeviceptr*, size_t*, size_t, CUmemcpyAttributes*, size_t*, size_t,
                               CUstream);
}

namespace {

struct Ranges {
    const CUdeviceptr* dsts;
    const CUdeviceptr* srcs;
    const size_t* sizes;
    size_t count;
};

struct Attributes {
    const CUmemcpyAttributes* values;
    const size_t* firsts;  // the copy from which each counts
    size_t count;
};

// When a source may be read is only looked at: it is read in the order of the stream, a pageable one
// during the call, which all of them allow.
bool are_good(const Attributes& given, size_t copies) {
    const bool whole = given.values != nullptr && given.firsts != nullptr;
    if (!whole || given.count == 0 || given.count > copies || given.firsts[0] != 0) return false;
    for (size_t i = 0; i < given.count; ++i) {
        const CUmemcpySrcAccessOrder order = given.values[i].srcAccessOrder;
        if (order < CU_MEMCPY_SRC_ACCESS_ORDER_STREAM || order > CU_MEMCPY_SRC_ACCESS_ORDER_ANY) return false;
        if (given.values[i].flags > CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE) return false;
        if (i != 0 && (given.firsts[i] <= given.firsts[i - 1] || given.firsts[i] >= copies)) return false;
    }
    return true;
}

bool read_copy(uint64_t dst, uint64_t src, size_t bytes, CopyWork* copy) {
    copy->dst = dst, copy->src = src, copy->width = copy->dst_pitch = copy->src_pitch = bytes;
    copy->dst_kind = memory_type(dst), copy->src_kind = memory_type(src);
    return bytes != 0 && check_copy(*copy) == CUDA_SUCCESS;
}

CUresult refusal(Stream& stream) {
    if (stream.is_legacy || current_context() == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult standing = standing_refusal(stream); standing != CUDA_SUCCESS) return standing;
    if (!stream.capture) return CUDA_SUCCESS;
    tell_refused(*stream.capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

// *failed: which copy was refused; SIZE_MAX: no single one.
CUresult copy_many(Entry& entry, const Ranges& ranges, const Attributes& attributes, size_t* failed, CUstream handle) {
    *failed = SIZE_MAX;
    Stream* const stream = find_stream(handle);
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (const CUresult refused = refusal(*stream); refused != CUDA_SUCCESS) return refused;
    const bool whole = ranges.dsts != nullptr && ranges.srcs != nullptr && ranges.sizes != nullptr;
    if (!whole || ranges.count == 0 || !are_good(attributes, ranges.count)) return CUDA_ERROR_INVALID_VALUE;
    std::vector<CopyWork> copies(ranges.count);
    for (size_t i = 0; i < ranges.count; ++i) {  // all of them, before any is begun
        if (read_copy(ranges.dsts[i], ranges.srcs[i], ranges.sizes[i], &copies[i])) continue;
        *failed = i;
        return CUDA_ERROR_INVALID_VALUE;
    }
    for (CopyWork& copy : copies)
        if (const CUresult code = copy_async(entry, handle, std::move(copy)); code != CUDA_SUCCESS) return code;
    return CUDA_SUCCESS;
}

}  // namespace

LOWGRAPH_API CUresult cuMemcpyBatchAsync(CUdeviceptr* dsts, CUdeviceptr* srcs, size_t* sizes, size_t count,
                                         CUmemcpyAttributes* attributes, size_t* firsts, size_t attribute_count,
                                         size_t* failed, CUstream handle) {
    LOWGRAPH_STREAM_ENTRY(handle);
    size_t place = 0;
    const CUresult code = copy_many(entry, {dsts, srcs, sizes, count}, {attributes, firsts, attribute_count}, &place,
                                    handle);
    if (code != CUDA_SUCCESS && failed != nullptr) *failed = place;
    return code;
}

LOWGRAPH_API CUresult cuMemcpyBatchAsync_v2(CUdeviceptr* dsts, CUdeviceptr* srcs, size_t* sizes, size_t count,
                                            CUmemcpyAttributes* attributes, size_t* firsts, size_t attribute_count,
                                            CUstream handle) {
    LOWGRAPH_STREAM_ENTRY(handle);
    size_t place = 0;
    return copy_many(entry, {dsts, srcs, sizes, count}, {attributes, firsts, attribute_count}, &place, handle);
}
