// Calls for programs built with per-thread default streams: the same calls, with stream 0 meaning
// the calling thread's own stream while they run.
#include <cuda.h>

#include <unordered_map>

#include "proc_entry.h"
#include "stream.h"

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

#define PAIR(symbol) \
    {reinterpret_cast<void*>(&symbol), reinterpret_cast<void*>(&Variant<&symbol>::call)}

const std::unordered_map<void*, void*>& pairs() {
    static const auto* const table = new std::unordered_map<void*, void*>{
        PAIR(cuMemcpy),
        PAIR(cuMemcpyAsync),
        PAIR(cuMemcpyPeer),
        PAIR(cuMemcpyPeerAsync),
        PAIR(cuMemcpyHtoD_v2),
        PAIR(cuMemcpyHtoDAsync_v2),
        PAIR(cuMemcpyDtoH_v2),
        PAIR(cuMemcpyDtoHAsync_v2),
        PAIR(cuMemcpyDtoD_v2),
        PAIR(cuMemcpyDtoDAsync_v2),
        PAIR(cuMemcpy2D_v2),
        PAIR(cuMemcpy2DUnaligned_v2),
        PAIR(cuMemcpy2DAsync_v2),
        PAIR(cuMemcpy3D_v2),
        PAIR(cuMemcpy3DAsync_v2),
        PAIR(cuMemsetD8_v2),
        PAIR(cuMemsetD16_v2),
        PAIR(cuMemsetD32_v2),
        PAIR(cuMemsetD2D8_v2),
        PAIR(cuMemsetD2D16_v2),
        PAIR(cuMemsetD2D32_v2),
        PAIR(cuMemsetD8Async),
        PAIR(cuMemsetD16Async),
        PAIR(cuMemsetD32Async),
        PAIR(cuMemsetD2D8Async),
        PAIR(cuMemsetD2D16Async),
        PAIR(cuMemsetD2D32Async),
        PAIR(cuMemAllocAsync),
        PAIR(cuMemAllocFromPoolAsync),
        PAIR(cuMemFreeAsync),
        PAIR(cuStreamGetPriority),
        PAIR(cuStreamGetFlags),
        PAIR(cuStreamGetId),
        PAIR(cuStreamGetCtx),
        PAIR(cuStreamGetCtx_v2),
        PAIR(cuStreamGetDevice),
        PAIR(cuStreamWaitEvent),
        PAIR(cuStreamQuery),
        PAIR(cuStreamSynchronize),
        PAIR(cuEventRecord),
        PAIR(cuEventRecordWithFlags),
        PAIR(cuLaunchKernel),
        PAIR(cuLaunchKernelEx),
        PAIR(cuLaunchCooperativeKernel),
        PAIR(cuLaunchHostFunc),
        PAIR(cuStreamBeginCapture_v2),
        PAIR(cuStreamBeginCaptureToGraph),
        PAIR(cuStreamEndCapture),
        PAIR(cuStreamIsCapturing),
        PAIR(cuStreamGetCaptureInfo_v2),
        PAIR(cuStreamGetCaptureInfo_v3),
        PAIR(cuStreamUpdateCaptureDependencies),
        PAIR(cuStreamUpdateCaptureDependencies_v2),
        PAIR(cuGraphUpload),
        PAIR(cuGraphLaunch),
        PAIR(cuGraphInstantiateWithParams),
    };
    return *table;
}

}  // namespace

void* per_thread_variant(void* function) {
    const auto spot = pairs().find(function);
    return spot == pairs().end() ? nullptr : spot->second;
}

}  // namespace lowgraph
