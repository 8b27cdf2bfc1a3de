// What a caller may ask of a capture, and the dependencies that it may set by hand.
#include <algorithm>

#include "capture_state.h"

namespace lowgraph {

void add_dependencies(Stream& stream, const std::vector<Node*>& nodes) {
    for (Node* node : nodes)
        if (std::find(stream.tail.begin(), stream.tail.end(), node) == stream.tail.end())
            stream.tail.push_back(node);
}

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

CUresult update_dependencies(Stream& stream, const std::vector<Node*>& dependencies, unsigned flags) {
    if (stream.is_legacy)
        if (const CUresult code = guard_legacy(*stream.context); code != CUDA_SUCCESS) return code;
    if (!stream.capture) return CUDA_ERROR_ILLEGAL_STATE;
    if (stream.capture->invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    for (const Node* node : dependencies)
        if (node->graph != &graph_of(*stream.capture)) return CUDA_ERROR_INVALID_VALUE;
    if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES) {
        std::vector<Node*>& let_go = stream.capture->let_go;
        let_go.insert(let_go.end(), stream.tail.begin(), stream.tail.end());
        stream.tail.clear();
    }
    add_dependencies(stream, dependencies);
    return CUDA_SUCCESS;
}

}  // namespace lowgraph
