// Memsets: each becomes one FillWork.
#include "capture.h"
#include "context.h"
#include "copy.h"
#include "memory.h"
#include "queue.h"
#include "stream.h"

using namespace lowgraph;

namespace {

FillWork row(CUdeviceptr dst, uint32_t value, unsigned element, size_t count) {
    return {dst, value, element, count, 1, count * element};
}

CUresult fill_async(Entry& entry, CUstream handle, const FillWork& work) {
    Stream* stream = find_stream(handle);
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    const CUresult standing = standing_refusal(*stream);
    if (work.width == 0 || work.height == 0) return standing;  // nothing to do is no node either
    if (work.dst % work.element != 0)  // harms no capture, unlike an address of nothing
        return standing != CUDA_SUCCESS ? standing : CUDA_ERROR_INVALID_VALUE;
    // A capture takes reserved addresses: there may be memory behind them when it is launched.
    const bool later = stream->capture && is_reserved(work.dst);
    if (const CUresult bad = check_fill(work); bad != CUDA_SUCCESS && !later)
        return invalid_call(*stream, bad);
    return offer(entry, *stream, Work{work});
}

// The forms without a stream go to the legacy stream, are never recorded, and do not wait for it.
CUresult fill_now(Entry& entry, const FillWork& work) {
    if (const CUresult refused = guard_legacy(*current_context()); refused != CUDA_SUCCESS) return refused;
    if (const CUresult bad = check_fill(work); bad != CUDA_SUCCESS) return bad;
    Stream& stream = *find_stream(nullptr);
    tell_elsewhere(stream, work);
    return submit(entry, stream, Work{work});
}

}  // namespace

LOWGRAPH_API CUresult cuMemsetD8_v2(CUdeviceptr dst, unsigned char value, size_t count) {
    LOWGRAPH_ENTRY(context);
    return fill_now(entry, row(dst, value, 1, count));
}

LOWGRAPH_API CUresult cuMemsetD16_v2(CUdeviceptr dst, unsigned short value, size_t count) {
    LOWGRAPH_ENTRY(context);
    return fill_now(entry, row(dst, value, 2, count));
}

LOWGRAPH_API CUresult cuMemsetD32_v2(CUdeviceptr dst, unsigned value, size_t count) {
    LOWGRAPH_ENTRY(context);
    return fill_now(entry, row(dst, value, 4, count));
}

LOWGRAPH_API CUresult cuMemsetD2D8_v2(CUdeviceptr dst, size_t pitch, unsigned char value,
                                      size_t width, size_t height) {
    LOWGRAPH_ENTRY(context);
    return fill_now(entry, {dst, value, 1, width, height, pitch});
}

LOWGRAPH_API CUresult cuMemsetD2D16_v2(CUdeviceptr dst, size_t pitch, unsigned short value,
                                       size_t width, size_t height) {
    LOWGRAPH_ENTRY(context);
    return fill_now(entry, {dst, value, 2, width, height, pitch});
}

LOWGRAPH_API CUresult cuMemsetD2D32_v2(CUdeviceptr dst, size_t pitch, unsigned value, size_t width,
                                       size_t height) {
    LOWGRAPH_ENTRY(context);
    return fill_now(entry, {dst, value, 4, width, height, pitch});
}

LOWGRAPH_API CUresult cuMemsetD8Async(CUdeviceptr dst, unsigned char value, size_t count,
                                      CUstream stream) {
    LOWGRAPH_STREAM_ENTRY(stream);
    return fill_async(entry, stream, row(dst, value, 1, count));
}

LOWGRAPH_API CUresult cuMemsetD16Async(CUdeviceptr dst, unsigned short value, size_t count,
                                       CUstream stream) {
    LOWGRAPH_STREAM_ENTRY(stream);
    return fill_async(entry, stream, row(dst, value, 2, count));
}

LOWGRAPH_API CUresult cuMemsetD32Async(CUdeviceptr dst, unsigned value, size_t count,
                                       CUstream stream) {
    LOWGRAPH_STREAM_ENTRY(stream);
    return fill_async(entry, stream, row(dst, value, 4, count));
}

LOWGRAPH_API CUresult cuMemsetD2D8Async(CUdeviceptr dst, size_t pitch, unsigned char value,
                                        size_t width, size_t height, CUstream stream) {
    LOWGRAPH_STREAM_ENTRY(stream);
    return fill_async(entry, stream, {dst, value, 1, width, height, pitch});
}

LOWGRAPH_API CUresult cuMemsetD2D16Async(CUdeviceptr dst, size_t pitch, unsigned short value,
                                         size_t width, size_t height, CUstream stream) {
    LOWGRAPH_STREAM_ENTRY(stream);
    return fill_async(entry, stream, {dst, value, 2, width, height, pitch});
}

LOWGRAPH_API CUresult cuMemsetD2D32Async(CUdeviceptr dst, size_t pitch, unsigned value,
                                         size_t width, size_t height, CUstream stream) {
    LOWGRAPH_STREAM_ENTRY(stream);
    return fill_async(entry, stream, {dst, value, 4, width, height, pitch});
}
