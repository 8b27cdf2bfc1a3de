// Copies in all their spellings: each becomes one CopyWork.
#include "capture.h"
#include "copy.h"
#include "memory.h"
#include "node_params.h"
#include "queue.h"
#include "stream.h"

using namespace lowgraph;

namespace {

constexpr CUmemorytype device = CU_MEMORYTYPE_DEVICE;
constexpr CUmemorytype host = CU_MEMORYTYPE_HOST;

uint64_t number(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }

CopyWork flat(CUmemorytype dst_kind, uint64_t dst, CUmemorytype src_kind, uint64_t src,
              size_t bytes) {
    CopyWork work;
    work.dst_kind = work.dst_told = dst_kind;
    work.src_kind = work.src_told = src_kind;
    work.dst = dst;
    work.src = src;
    work.width = bytes;
    work.dst_pitch = work.src_pitch = bytes;
    return work;
}

// Unified addressing: an address says by itself where it is.
CopyWork unified(uint64_t dst, uint64_t src, size_t bytes) {
    CopyWork work = flat(memory_type(dst), dst, memory_type(src), src, bytes);
    work.dst_told = work.src_told = CU_MEMORYTYPE_UNIFIED;
    return work;
}

CUDA_MEMCPY3D with_depth(const CUDA_MEMCPY2D& flat_params) {
    CUDA_MEMCPY3D params{};
    params.srcXInBytes = flat_params.srcXInBytes, params.srcY = flat_params.srcY;
    params.srcMemoryType = flat_params.srcMemoryType;
    params.srcHost = flat_params.srcHost, params.srcDevice = flat_params.srcDevice;
    params.srcPitch = flat_params.srcPitch;
    params.dstXInBytes = flat_params.dstXInBytes, params.dstY = flat_params.dstY;
    params.dstMemoryType = flat_params.dstMemoryType;
    params.dstHost = flat_params.dstHost, params.dstDevice = flat_params.dstDevice;
    params.dstPitch = flat_params.dstPitch;
    params.WidthInBytes = flat_params.WidthInBytes, params.Height = flat_params.Height,
    params.Depth = 1;
    return params;
}

bool is_empty(const CUDA_MEMCPY3D& params) {
    return params.WidthInBytes == 0 || params.Height == 0 || params.Depth == 0;
}

// A pitch of 0 means rows without gaps.
CUresult read_copy(CUDA_MEMCPY3D params, CopyWork* copy) {
    if (params.srcPitch == 0) params.srcPitch = params.WidthInBytes + params.srcXInBytes;
    if (params.dstPitch == 0) params.dstPitch = params.WidthInBytes + params.dstXInBytes;
    Work work;
    const CUresult code = read_params(params, &work);
    if (code == CUDA_SUCCESS) *copy = std::get<CopyWork>(work);
    return code;
}

CUresult pitched_now(Entry& entry, const CUDA_MEMCPY3D& params) {
    CopyWork work;
    if (is_empty(params)) return CUDA_SUCCESS;
    if (const CUresult bad = read_copy(params, &work); bad != CUDA_SUCCESS) return bad;
    return copy_now(entry, std::move(work));
}

CUresult pitched_async(Entry& entry, CUstream stream, const CUDA_MEMCPY3D& params) {
    CopyWork work;
    if (is_empty(params)) return copy_async(entry, stream, std::move(work));
    if (const CUresult bad = read_copy(params, &work); bad != CUDA_SUCCESS) return bad;
    return copy_async(entry, stream, std::move(work));
}

}  // namespace

LOWGRAPH_API CUresult cuMemcpyHtoD_v2(CUdeviceptr dst, const void* src, size_t bytes) {
    LOWGRAPH_ENTRY(context);
    return copy_now(entry, flat(device, dst, host, number(src), bytes));
}

LOWGRAPH_API CUresult cuMemcpyDtoH_v2(void* dst, CUdeviceptr src, size_t bytes) {
    LOWGRAPH_ENTRY(context);
    return copy_now(entry, flat(host, number(dst), device, src, bytes));
}

LOWGRAPH_API CUresult cuMemcpyDtoD_v2(CUdeviceptr dst, CUdeviceptr src, size_t bytes) {
    LOWGRAPH_ENTRY(context);
    return copy_now(entry, flat(device, dst, device, src, bytes));
}

LOWGRAPH_API CUresult cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t bytes) {
    LOWGRAPH_ENTRY(context);
    return copy_now(entry, unified(dst, src, bytes));
}

LOWGRAPH_API CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr dst, const void* src, size_t bytes,
                                           CUstream stream) {
    LOWGRAPH_STREAM_ENTRY(stream);
    return copy_async(entry, stream, flat(device, dst, host, number(src), bytes));
}

LOWGRAPH_API CUresult cuMemcpyDtoHAsync_v2(void* dst, CUdeviceptr src, size_t bytes,
                                           CUstream stream) {
    LOWGRAPH_STREAM_ENTRY(stream);
    return copy_async(entry, stream, flat(host, number(dst), device, src, bytes));
}

LOWGRAPH_API CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr dst, CUdeviceptr src, size_t bytes,
                                           CUstream stream) {
    LOWGRAPH_STREAM_ENTRY(stream);
    return copy_async(entry, stream, flat(device, dst, device, src, bytes));
}

LOWGRAPH_API CUresult cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t bytes,
                                    CUstream stream) {
    LOWGRAPH_STREAM_ENTRY(stream);
    return copy_async(entry, stream, unified(dst, src, bytes));
}

LOWGRAPH_API CUresult cuMemcpyPeer(CUdeviceptr dst, CUcontext, CUdeviceptr src, CUcontext,
                                   size_t bytes) {
    LOWGRAPH_ENTRY(context);
    return copy_now(entry, unified(dst, src, bytes));
}

LOWGRAPH_API CUresult cuMemcpyPeerAsync(CUdeviceptr dst, CUcontext, CUdeviceptr src, CUcontext,
                                        size_t bytes, CUstream stream) {
    LOWGRAPH_STREAM_ENTRY(stream);
    Stream* const found = find_stream(stream);
    if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (const CUresult refused = guard_uncapturable(*found); refused != CUDA_SUCCESS) return refused;
    return copy_async(entry, stream, unified(dst, src, bytes));
}

LOWGRAPH_API CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D* params) {
    LOWGRAPH_ENTRY(context);
    return params != nullptr ? pitched_now(entry, with_depth(*params)) : CUDA_ERROR_INVALID_VALUE;
}

LOWGRAPH_API CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D* params) {
    LOWGRAPH_ENTRY(context);
    return params != nullptr ? pitched_now(entry, with_depth(*params)) : CUDA_ERROR_INVALID_VALUE;
}

LOWGRAPH_API CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D* params, CUstream stream) {
    LOWGRAPH_STREAM_ENTRY(stream);
    return params != nullptr ? pitched_async(entry, stream, with_depth(*params))
                             : CUDA_ERROR_INVALID_VALUE;
}

LOWGRAPH_API CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D* params) {
    LOWGRAPH_ENTRY(context);
    return params != nullptr ? pitched_now(entry, *params) : CUDA_ERROR_INVALID_VALUE;
}

LOWGRAPH_API CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D* params, CUstream stream) {
    LOWGRAPH_STREAM_ENTRY(stream);
    return params != nullptr ? pitched_async(entry, stream, *params) : CUDA_ERROR_INVALID_VALUE;
}
