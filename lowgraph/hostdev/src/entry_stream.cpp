// Streams: made, ordered, waited for.
#include "capture.h"
#include "context.h"
#include "device.h"
#include "stream.h"

using namespace lowgraph;

namespace {

CUresult create(CUstream* out, unsigned flags, int priority) {
    if (out == nullptr || (flags & ~unsigned{CU_STREAM_NON_BLOCKING}) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    *out = reinterpret_cast<CUstream>(&create_stream(*current_context(), flags, priority));
    return CUDA_SUCCESS;
}

struct Callback {
    CUstreamCallback function;
    CUstream stream;
    void* data;
};

void call_back(void* held) {
    const std::unique_ptr<Callback> callback(static_cast<Callback*>(held));
    callback->function(callback->stream, CUDA_SUCCESS, callback->data);
}

}  // namespace

// Looks at the flags before it asks for a context, unlike its sister with a priority.
LOWGRAPH_API CUresult cuStreamCreate(CUstream* out, unsigned flags) {
    LOWGRAPH_ENTRY(handle);
    if ((flags & ~unsigned{CU_STREAM_NON_BLOCKING}) != 0) return CUDA_ERROR_INVALID_VALUE;
    const Context* const context = current_context();
    if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    if (context->destroyed) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    return create(out, flags, 0);
}

LOWGRAPH_API CUresult cuStreamCreateWithPriority(CUstream* out, unsigned flags, int priority) {
    LOWGRAPH_ENTRY(context);
    return create(out, flags, priority);
}

LOWGRAPH_API CUresult cuStreamDestroy_v2(CUstream handle) {
    LOWGRAPH_STREAM_ENTRY(handle);
    Stream* stream = find_stream(handle);
    if (stream == nullptr || stream->is_legacy || stream->is_per_thread)
        return CUDA_ERROR_INVALID_HANDLE;
    destroy_stream(*stream);
    return CUDA_SUCCESS;
}

LOWGRAPH_API CUresult cuStreamSynchronize(CUstream handle) {
    LOWGRAPH_STREAM_ENTRY(handle);
    Stream* stream = find_stream(handle);
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (const CUresult refused = guard_stream_wait(*stream, false); refused != CUDA_SUCCESS)
        return refused;
    // The legacy stream's end is behind all blocking streams, as its next work would be.
    const Ticket last = stream->is_legacy ? enqueue(*stream, EmptyWork{}) : stream->last;
    finish(last, entry.lock());
    return context_error();
}

LOWGRAPH_API CUresult cuStreamQuery(CUstream handle) {
    LOWGRAPH_STREAM_ENTRY(handle);
    Stream* stream = find_stream(handle);
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (const CUresult refused = guard_stream_wait(*stream, true); refused != CUDA_SUCCESS)
        return refused;
    if (!host_asks(stream->last)) return CUDA_ERROR_NOT_READY;
    if (!stream->is_legacy) return CUDA_SUCCESS;
    for (const Stream* other : live_streams())
        if (waits_for_legacy(*other, *stream->context) && !host_asks(other->last)) return CUDA_ERROR_NOT_READY;
    return CUDA_SUCCESS;
}

LOWGRAPH_API CUresult cuStreamWaitEvent(CUstream handle, CUevent event_handle, unsigned flags) {
    LOWGRAPH_STREAM_ENTRY(handle);
    Stream* stream = find_stream(handle);
    Event* event = find_event(event_handle);
    if (stream == nullptr || event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if ((flags & ~unsigned{CU_EVENT_WAIT_EXTERNAL}) != 0) return CUDA_ERROR_INVALID_VALUE;
    const Route route = route_wait(*stream, *event, flags);
    if (route.kind != Route::run) return route.code;
    return settle(entry, enqueue_after(*stream, WaitWork{event}, event->recorded));
}

LOWGRAPH_API CUresult cuLaunchHostFunc(CUstream handle, CUhostFn fn, void* user_data) {
    LOWGRAPH_STREAM_ENTRY(handle);
    Stream* stream = find_stream(handle);
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (fn == nullptr) return invalid_call(*stream, CUDA_ERROR_INVALID_VALUE);
    return offer(entry, *stream, HostWork{fn, user_data});
}

// CUDA 5's host function, which can be no node. In a broken context it is not called, as none is.
LOWGRAPH_API CUresult cuStreamAddCallback(CUstream handle, CUstreamCallback function, void* data, unsigned flags) {
    LOWGRAPH_STREAM_ENTRY(handle);
    Stream* stream = find_stream(handle);
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (const CUresult refused = guard_uncapturable(*stream); refused != CUDA_SUCCESS) return refused;
    if (function == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    return offer(entry, *stream, HostWork{call_back, new Callback{function, handle, data}});
}

LOWGRAPH_API CUresult cuStreamGetFlags(CUstream handle, unsigned* flags) {
    LOWGRAPH_STREAM_ENTRY(handle);
    Stream* stream = find_stream(handle);
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult refused = guard_uncapturable(*stream); refused != CUDA_SUCCESS) return refused;
    *flags = stream->flags;
    return CUDA_SUCCESS;
}

LOWGRAPH_API CUresult cuStreamGetPriority(CUstream handle, int* priority) {
    LOWGRAPH_STREAM_ENTRY(handle);
    Stream* stream = find_stream(handle);
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (priority == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult standing = standing_refusal(*stream); standing != CUDA_SUCCESS) return standing;
    *priority = stream->priority;
    return CUDA_SUCCESS;
}

LOWGRAPH_API CUresult cuStreamGetId(CUstream handle, unsigned long long* id) {
    LOWGRAPH_STREAM_ENTRY(handle);
    Stream* stream = find_stream(handle);
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (id == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult refused = guard_uncapturable(*stream); refused != CUDA_SUCCESS) return refused;
    *id = stream->id;
    return CUDA_SUCCESS;
}

LOWGRAPH_API CUresult cuStreamGetCtx(CUstream handle, CUcontext* context) {
    LOWGRAPH_STREAM_ENTRY(handle);
    Stream* stream = find_stream(handle);
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult standing = standing_refusal(*stream); standing != CUDA_SUCCESS) return standing;
    *context = reinterpret_cast<CUcontext>(stream->context);
    return CUDA_SUCCESS;
}

// There are no green contexts here: the second answer is always null.
LOWGRAPH_API CUresult cuStreamGetCtx_v2(CUstream handle, CUcontext* context, CUgreenCtx* green) {
    LOWGRAPH_STREAM_ENTRY(handle);
    Stream* stream = find_stream(handle);
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (const CUresult standing = standing_refusal(*stream); standing != CUDA_SUCCESS) return standing;
    if (context == nullptr || green == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *context = reinterpret_cast<CUcontext>(stream->context);
    *green = nullptr;
    return CUDA_SUCCESS;
}

LOWGRAPH_API CUresult cuStreamGetDevice(CUstream handle, CUdevice* device) {
    LOWGRAPH_STREAM_ENTRY(handle);
    if (find_stream(handle) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *device = 0;
    return CUDA_SUCCESS;
}
