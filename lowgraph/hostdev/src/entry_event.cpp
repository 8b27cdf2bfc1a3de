// Events: recorded, waited for, and the time between two of them.
#include "capture.h"
#include "context.h"
#include "stream.h"

using namespace lowgraph;

namespace {

constexpr unsigned event_flags =
    CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;

CUresult record(Entry& entry, CUevent event_handle, CUstream handle, unsigned flags) {
    Stream* stream = find_stream(handle);
    Event* event = find_event(event_handle);
    if (stream == nullptr || event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    // Waits and external records may cross from one context to another.
    const bool external = flags & CU_EVENT_RECORD_EXTERNAL;
    if (!external && event->context != stream->context) return foreign_object(*stream);
    if ((flags & ~unsigned{CU_EVENT_RECORD_EXTERNAL}) != 0) return CUDA_ERROR_INVALID_VALUE;
    const Route route = route_record(*stream, *event, flags);
    if (route.kind != Route::run) return route.code;
    event->recorded = enqueue(*stream, RecordWork{event});
    return settle(entry, event->recorded);
}

CUresult elapsed(float* milliseconds, CUevent start_handle, CUevent end_handle) {
    const Event* start = find_event(start_handle);
    const Event* end = find_event(end_handle);
    if (milliseconds == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (start == nullptr || end == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (start->context != end->context) return CUDA_ERROR_INVALID_HANDLE;
    if (const CUresult refused = guard_elapsed(*start, *end); refused != CUDA_SUCCESS)
        return refused;
    if (!host_asks(start->recorded) || !host_asks(end->recorded)) return CUDA_ERROR_NOT_READY;
    *milliseconds = static_cast<float>(end->time_ms - start->time_ms);
    return CUDA_SUCCESS;
}

}  // namespace

LOWGRAPH_API CUresult cuEventCreate(CUevent* out, unsigned flags) {
    LOWGRAPH_ENTRY(context);
    if (out == nullptr || (flags & ~event_flags) != 0) return CUDA_ERROR_INVALID_VALUE;
    if ((flags & CU_EVENT_INTERPROCESS) != 0) return CUDA_ERROR_NOT_SUPPORTED;
    *out = reinterpret_cast<CUevent>(&create_event(*current_context(), flags));
    return CUDA_SUCCESS;
}

LOWGRAPH_API CUresult cuEventDestroy_v2(CUevent handle) {
    LOWGRAPH_ENTRY(handle);
    Event* event = find_event(handle);
    if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    destroy_event(*event);
    return CUDA_SUCCESS;
}

LOWGRAPH_API CUresult cuEventRecord(CUevent event, CUstream stream) {
    LOWGRAPH_STREAM_ENTRY(stream);
    return record(entry, event, stream, CU_EVENT_RECORD_DEFAULT);
}

LOWGRAPH_API CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned flags) {
    LOWGRAPH_STREAM_ENTRY(stream);
    return record(entry, event, stream, flags);
}

LOWGRAPH_API CUresult cuEventQuery(CUevent handle) {
    LOWGRAPH_ENTRY(handle);
    Event* event = find_event(handle);
    if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (const CUresult refused = guard_event_wait(*event, true); refused != CUDA_SUCCESS)
        return refused;
    return host_asks(event->recorded) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

LOWGRAPH_API CUresult cuEventSynchronize(CUevent handle) {
    LOWGRAPH_ENTRY(handle);
    Event* event = find_event(handle);
    if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (const CUresult refused = guard_event_wait(*event, false); refused != CUDA_SUCCESS)
        return refused;
    const Ticket recorded = event->recorded;  // a record that is issued meanwhile is not waited for
    finish(recorded, entry.lock());
    return context_error();
}

#undef cuEventElapsedTime
LOWGRAPH_API CUresult cuEventElapsedTime(float* milliseconds, CUevent start, CUevent end) {
    LOWGRAPH_ENTRY(handle);
    return elapsed(milliseconds, start, end);
}

LOWGRAPH_API CUresult cuEventElapsedTime_v2(float* milliseconds, CUevent start, CUevent end) {
    LOWGRAPH_ENTRY(handle);
    return elapsed(milliseconds, start, end);
}
