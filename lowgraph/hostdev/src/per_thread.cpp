// Calls for programs built with per-thread default streams: the same calls, with stream 0 meaning
// the calling thread's own stream while they run. They are found by cuGetProcAddress with its flag,
// and by a program that was compiled with CUDA_API_PER_THREAD_DEFAULT_STREAM as symbols with the
// suffix that cuda.h gives them.
#include <cuda.h>

#include <unordered_map>

#include "entry.h"
#include "proc_entry.h"
#include "stream.h"

#undef cuStreamGetCtx
LOWGRAPH_API CUresult cuStreamGetCtx(CUstream, CUcontext*);
LOWGRAPH_API CUresult cuMemcpyBatchAsync_v2(CUdeviceptr*, CUdeviceptr*, size_t*, size_t, CUmemcpyAttributes*, size_t*,
                                            size_t, CUstream);
LOWGRAPH_API CUresult cuMemPrefetchBatchAsync(CUdeviceptr*, size_t*, size_t, CUmemLocation*, size_t*, size_t,
                                              unsigned long long, CUstream);

// Synchronous calls, which work on stream 0, end in _ptds; those that are given a stream, in _ptsz.
#define EACH_CALL(X) \
    X(cuMemcpy, _ptds) \
    X(cuMemcpyAsync, _ptsz) \
    X(cuMemcpyPeer, _ptds) \
    X(cuMemcpyPeerAsync, _ptsz) \
    X(cuMemcpyHtoD_v2, _ptds) \
    X(cuMemcpyHtoDAsync_v2, _ptsz) \
    X(cuMemcpyDtoH_v2, _ptds) \
    X(cuMemcpyDtoHAsync_v2, _ptsz) \
    X(cuMemcpyDtoD_v2, _ptds) \
    X(cuMemcpyDtoDAsync_v2, _ptsz) \
    X(cuMemcpy2D_v2, _ptds) \
    X(cuMemcpy2DUnaligned_v2, _ptds) \
    X(cuMemcpy2DAsync_v2, _ptsz) \
    X(cuMemcpy3D_v2, _ptds) \
    X(cuMemcpy3DAsync_v2, _ptsz) \
    X(cuMemsetD8_v2, _ptds) \
    X(cuMemsetD16_v2, _ptds) \
    X(cuMemsetD32_v2, _ptds) \
    X(cuMemsetD2D8_v2, _ptds) \
    X(cuMemsetD2D16_v2, _ptds) \
    X(cuMemsetD2D32_v2, _ptds) \
    X(cuMemsetD8Async, _ptsz) \
    X(cuMemsetD16Async, _ptsz) \
    X(cuMemsetD32Async, _ptsz) \
    X(cuMemsetD2D8Async, _ptsz) \
    X(cuMemsetD2D16Async, _ptsz) \
    X(cuMemsetD2D32Async, _ptsz) \
    X(cuMemAllocAsync, _ptsz) \
    X(cuMemcpyBatchAsync, _ptsz) \
    X(cuMemcpyBatchAsync_v2, _ptsz) \
    X(cuMemPrefetchBatchAsync, _ptsz) \
    X(cuStreamAddCallback, _ptsz) \
    X(cuMemPrefetchAsync, _ptsz) \
    X(cuMemPrefetchAsync_v2, _ptsz) \
    X(cuStreamAttachMemAsync, _ptsz) \
    X(cuMemAllocFromPoolAsync, _ptsz) \
    X(cuMemFreeAsync, _ptsz) \
    X(cuStreamGetPriority, _ptsz) \
    X(cuStreamGetFlags, _ptsz) \
    X(cuStreamGetId, _ptsz) \
    X(cuStreamGetCtx, _ptsz) \
    X(cuStreamGetCtx_v2, _ptsz) \
    X(cuStreamGetDevice, _ptsz) \
    X(cuStreamSetAttribute, _ptsz) \
    X(cuStreamGetAttribute, _ptsz) \
    X(cuStreamCopyAttributes, _ptsz) \
    X(cuStreamWaitEvent, _ptsz) \
    X(cuStreamQuery, _ptsz) \
    X(cuStreamSynchronize, _ptsz) \
    X(cuEventRecord, _ptsz) \
    X(cuEventRecordWithFlags, _ptsz) \
    X(cuLaunchKernel, _ptsz) \
    X(cuLaunchKernelEx, _ptsz) \
    X(cuLaunchCooperativeKernel, _ptsz) \
    X(cuLaunchHostFunc, _ptsz) \
    X(cuStreamWriteValue32_v2, _ptsz) \
    X(cuStreamWriteValue64_v2, _ptsz) \
    X(cuStreamWaitValue32_v2, _ptsz) \
    X(cuStreamWaitValue64_v2, _ptsz) \
    X(cuStreamBatchMemOp_v2, _ptsz) \
    X(cuStreamBeginCapture_v2, _ptsz) \
    X(cuStreamBeginCaptureToGraph, _ptsz) \
    X(cuStreamEndCapture, _ptsz) \
    X(cuStreamIsCapturing, _ptsz) \
    X(cuStreamGetCaptureInfo_v2, _ptsz) \
    X(cuStreamGetCaptureInfo_v3, _ptsz) \
    X(cuStreamUpdateCaptureDependencies, _ptsz) \
    X(cuStreamUpdateCaptureDependencies_v2, _ptsz) \
    X(cuGraphUpload, _ptsz) \
    X(cuGraphLaunch, _ptsz) \
    X(cuGraphInstantiateWithParams, _ptsz)

namespace lowgraph {
namespace {

struct PerThreadScope {
    PerThreadScope() { null_is_per_thread() = true; }
    ~PerThreadScope() { null_is_per_thread() = false; }
};

template <auto function>
struct Variant;

template <typename... Args, CUresult (*function)(Args...)>
struct Variant<function> {
    static CUresult call(Args... args) {
        const PerThreadScope scope;
        return function(args...);
    }
};

#define PAIR(symbol, suffix) \
    {reinterpret_cast<void*>(&symbol), reinterpret_cast<void*>(&Variant<&symbol>::call)},

const std::unordered_map<void*, void*>& pairs() {
    static const auto* const table = new std::unordered_map<void*, void*>{EACH_CALL(PAIR)};
    return *table;
}

}  // namespace

void* per_thread_variant(void* function) {
    const auto spot = pairs().find(function);
    return spot == pairs().end() ? nullptr : spot->second;
}

}  // namespace lowgraph

// Indirect functions: the one way to export a symbol of a call's type without repeating its
// parameters. The loader asks each resolver once; they are not static, for their plain names.
#define EXPORT(symbol, suffix)                                                  \
    __attribute__((visibility("hidden"))) void* resolve_##symbol() {            \
        return reinterpret_cast<void*>(&lowgraph::Variant<&symbol>::call);      \
    }                                                                           \
    decltype(symbol) symbol##suffix __attribute__((ifunc("resolve_" #symbol)));

extern "C" {
EACH_CALL(EXPORT)
}
