// What a call may not do while a stream captures. The codes and what they invalidate are recorded rows.
#include "capture_state.h"

namespace lowgraph {
namespace {

// How unsafe calls of this thread are judged; cuThreadExchangeStreamCaptureMode changes it.
thread_local CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

// Whether an unsafe call of this thread meets `capture`: one that it began itself, or, where both the
// capture and the thread are in global mode, anyone's.
bool forbids_unsafe(const Capture& capture) {
    if (capture.mode == CU_STREAM_CAPTURE_MODE_RELAXED) return false;
    if (thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED) return false;
    if (capture.owner == std::this_thread::get_id()) return true;
    return capture.mode == CU_STREAM_CAPTURE_MODE_GLOBAL && thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
}


// Invalidates every capture that `meets` names; `code` if there was one.
template <typename Meets>
CUresult refuse_if(Meets meets, CUresult code) {
    CUresult answer = CUDA_SUCCESS;
    for (const std::shared_ptr<Capture>& capture : live_captures())
        if (meets(*capture)) {
            invalidate(*capture, code);
            answer = code;
        }
    return answer;
}

}  // namespace

CUstreamCaptureMode exchange_thread_mode(CUstreamCaptureMode mode) {
    const CUstreamCaptureMode before = thread_mode;
    thread_mode = mode;
    return before;
}

CUresult guard_unsafe() {
    if (telling::on)
        for (const std::shared_ptr<Capture>& capture : live_captures())
            if (!is_dead(*capture) && !forbids_unsafe(*capture)) tell_let_through(*capture);
    return refuse_if(forbids_unsafe, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
}

CUresult guard_legacy(const Context& context) {
    return refuse_if([&context](const Capture& capture) { return holds_up_legacy(capture, context); },
                     CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
}

// Every capture of the context dies, whatever its mode and whoever began it.
CUresult guard_context_sync(const Context& context) {
    return refuse_if([&context](const Capture& capture) { return capture.origin->context == &context; },
                     CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
}

CUresult standing_refusal(Stream& stream) {
    if (stream.is_legacy) return guard_legacy(*stream.context);
    if (!stream.capture || !stream.capture->invalidated) return CUDA_SUCCESS;
    tell_refused(*stream.capture, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
}

CUresult guard_uncapturable(Stream& stream) {
    if (stream.is_legacy) return guard_legacy(*stream.context);
    if (!stream.capture) return CUDA_SUCCESS;
    invalidate(*stream.capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

CUresult guard_stream_wait(Stream& stream, bool) {
    const CUresult code = guard_uncapturable(stream);
    return code != CUDA_SUCCESS ? code : guard_unsafe();
}

CUresult guard_event_wait(Event& event, bool) {
    if (!event.capture) return guard_unsafe();
    if (is_dead(*event.capture)) return CUDA_ERROR_INVALID_VALUE;
    invalidate(*event.capture, CUDA_ERROR_CAPTURED_EVENT);
    return CUDA_ERROR_CAPTURED_EVENT;
}

// Asks about each event in turn before it looks at the timing flags, and invalidates nothing.
CUresult guard_elapsed(const Event& start, const Event& end) {
    for (const Event* event : {&start, &end}) {
        if (event->capture)
            return is_dead(*event->capture) ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_CAPTURED_EVENT;
        if (!event->recorded) return CUDA_ERROR_INVALID_HANDLE;
    }
    const bool timed = !((start.flags | end.flags) & CU_EVENT_DISABLE_TIMING);
    return timed ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

}  // namespace lowgraph
