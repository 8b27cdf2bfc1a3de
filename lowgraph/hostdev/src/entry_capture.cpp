// Entry points of stream capture.
#include "capture_state.h"
#include "edge_data.h"
#include "graph.h"
#include "handles.h"
#include "stream.h"

using namespace lowgraph;

namespace {

bool is_mode(CUstreamCaptureMode mode) {
    return mode == CU_STREAM_CAPTURE_MODE_GLOBAL || mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL ||
           mode == CU_STREAM_CAPTURE_MODE_RELAXED;
}

struct CaptureInfo {
    CUstreamCaptureStatus* status;
    cuuint64_t* id;
    CUgraph* graph;
    const CUgraphNode** dependencies;
    size_t* count;
    const CUgraphEdgeData** data = nullptr;  // null: the dependencies are told by plain edges alone
};

// The caller may read it until its next driver call.
const CUgraphEdgeData* data_until_next_call(const Tail& tail) {
    static thread_local std::vector<CUgraphEdgeData> told;
    told.clear();
    for (const Node* node : tail.nodes) told.push_back(data_of(tail.data, node));
    return told.data();
}

// What is asked for beside the status is written while the capture is active only.
CUresult capture_info(CUstream handle, const CaptureInfo& out) {
    Stream* const stream = find_stream(handle);
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (out.status == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const CUresult code = capture_status(*stream, out.status);
    if (code != CUDA_SUCCESS || *out.status != CU_STREAM_CAPTURE_STATUS_ACTIVE) return code;
    Capture& capture = *stream->capture;
    const Tail& tail = stream->tail;
    if (out.dependencies != nullptr && out.data == nullptr && !tail.data.empty()) return CUDA_ERROR_LOSSY_QUERY;
    if (out.id != nullptr) *out.id = capture.id;
    if (out.graph != nullptr) *out.graph = handle_of(&graph_of(capture));
    if (out.dependencies != nullptr)
        *out.dependencies = reinterpret_cast<const CUgraphNode*>(tail.nodes.data());
    if (out.count != nullptr) *out.count = tail.nodes.size();
    if (out.data != nullptr) *out.data = data_until_next_call(tail);
    return code;
}

CUresult set_dependencies(CUstream handle, const CUgraphNode* handles, const CUgraphEdgeData* data, size_t count,
                          unsigned flags) {
    Stream* const stream = find_stream(handle);
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    std::vector<Node*> nodes;
    if (!read_nodes(handles, count, nullptr, &nodes)) return CUDA_ERROR_INVALID_VALUE;
    if (flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES) return CUDA_ERROR_INVALID_VALUE;
    Tail tail;
    const CUresult code = read_tail(std::move(nodes), data, &tail);
    return code != CUDA_SUCCESS ? code : update_dependencies(*stream, tail, flags);
}

}  // namespace

LOWGRAPH_API CUresult cuStreamBeginCapture_v2(CUstream hStream, CUstreamCaptureMode mode) {
    LOWGRAPH_STREAM_ENTRY(hStream);
    Stream* const stream = find_stream(hStream);
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (!is_mode(mode)) return CUDA_ERROR_INVALID_VALUE;
    return begin_capture(*stream, mode);
}

LOWGRAPH_API CUresult cuStreamBeginCaptureToGraph(CUstream hStream, CUgraph hGraph,
                                                  const CUgraphNode* dependencies,
                                                  const CUgraphEdgeData* dependencyData,
                                                  size_t numDependencies, CUstreamCaptureMode mode) {
    LOWGRAPH_STREAM_ENTRY(hStream);
    Stream* const stream = find_stream(hStream);
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    Graph* const graph = find_graph(hGraph);
    std::vector<Node*> nodes;
    if (graph == nullptr || !is_mode(mode) || !read_nodes(dependencies, numDependencies, graph, &nodes))
        return CUDA_ERROR_INVALID_VALUE;
    Tail tail;
    const CUresult code = read_tail(std::move(nodes), dependencyData, &tail);
    return code != CUDA_SUCCESS ? code : begin_capture_to_graph(*stream, *graph, tail, mode);
}

LOWGRAPH_API CUresult cuStreamEndCapture(CUstream hStream, CUgraph* phGraph) {
    LOWGRAPH_STREAM_ENTRY(hStream);
    Stream* const stream = find_stream(hStream);
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (phGraph == nullptr) return CUDA_ERROR_INVALID_VALUE;
    Graph* graph = nullptr;
    const CUresult code = end_capture(*stream, &graph);
    *phGraph = handle_of(graph);
    return code;
}

LOWGRAPH_API CUresult cuStreamIsCapturing(CUstream hStream, CUstreamCaptureStatus* captureStatus) {
    LOWGRAPH_STREAM_ENTRY(hStream);
    return capture_info(hStream, {captureStatus, nullptr, nullptr, nullptr, nullptr});
}

LOWGRAPH_API CUresult cuStreamGetCaptureInfo_v2(CUstream hStream, CUstreamCaptureStatus* status,
                                                cuuint64_t* id, CUgraph* graph,
                                                const CUgraphNode** dependencies, size_t* count) {
    LOWGRAPH_STREAM_ENTRY(hStream);
    return capture_info(hStream, {status, id, graph, dependencies, count});
}

LOWGRAPH_API CUresult cuStreamGetCaptureInfo_v3(CUstream hStream, CUstreamCaptureStatus* status,
                                                cuuint64_t* id, CUgraph* graph,
                                                const CUgraphNode** dependencies,
                                                const CUgraphEdgeData** edgeData, size_t* count) {
    LOWGRAPH_STREAM_ENTRY(hStream);
    return capture_info(hStream, {status, id, graph, dependencies, count, edgeData});
}

LOWGRAPH_API CUresult cuStreamUpdateCaptureDependencies(CUstream hStream, CUgraphNode* dependencies,
                                                        size_t numDependencies, unsigned int flags) {
    LOWGRAPH_STREAM_ENTRY(hStream);
    return set_dependencies(hStream, dependencies, nullptr, numDependencies, flags);
}

LOWGRAPH_API CUresult cuStreamUpdateCaptureDependencies_v2(CUstream hStream, CUgraphNode* dependencies,
                                                           const CUgraphEdgeData* dependencyData,
                                                           size_t numDependencies, unsigned int flags) {
    LOWGRAPH_STREAM_ENTRY(hStream);
    return set_dependencies(hStream, dependencies, dependencyData, numDependencies, flags);
}

LOWGRAPH_API CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
    LOWGRAPH_ENTRY(handle);
    if (mode == nullptr || !is_mode(*mode)) return CUDA_ERROR_INVALID_VALUE;
    *mode = exchange_thread_mode(*mode);
    return CUDA_SUCCESS;
}
