// What a caller may ask of a capture, and the dependencies that it may set by hand.
#include "capture_state.h"
#include "edge_data.h"

namespace lowgraph {

CUresult capture_status(Stream& stream, CUstreamCaptureStatus* status) {
    if (stream.is_legacy)
        for (const std::shared_ptr<Capture>& capture : live_captures())
            if (holds_up_legacy(*capture, *stream.context))
                return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;  // asking harms nothing
    *status = !stream.capture                 ? CU_STREAM_CAPTURE_STATUS_NONE
              : stream.capture->invalidated ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                            : CU_STREAM_CAPTURE_STATUS_ACTIVE;
    return CUDA_SUCCESS;
}

CUresult update_dependencies(Stream& stream, const Tail& dependencies, unsigned flags) {
    if (stream.is_legacy)
        if (const CUresult code = guard_legacy(*stream.context); code != CUDA_SUCCESS) return code;
    if (!stream.capture) return CUDA_ERROR_ILLEGAL_STATE;
    if (stream.capture->invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    for (const Node* node : dependencies.nodes)
        if (node->graph != &graph_of(*stream.capture)) return CUDA_ERROR_INVALID_VALUE;
    if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES) {
        std::vector<Node*>& let_go = stream.capture->let_go;
        let_go.insert(let_go.end(), stream.tail.nodes.begin(), stream.tail.nodes.end());
        stream.tail = {};
    }
    join_tail(stream.tail, dependencies);
    return CUDA_SUCCESS;
}

Route route_launch_event(Stream& stream, Event& event, const CUgraphEdgeData& data) {
    const Route route = route_record(stream, event, CU_EVENT_RECORD_DEFAULT);
    if (route.kind == Route::recorded) event.captured_tail.data[stream.tail.nodes.front()] = data;
    return route;
}

}  // namespace lowgraph
