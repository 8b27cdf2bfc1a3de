// Entry points of executable graphs and of the user objects that graphs keep alive.
#include "capture.h"
#include "conditional.h"
#include "entry.h"
#include "handles.h"
#include "node_params.h"
#include "stream.h"
#include "update.h"
#include "user_object.h"

using namespace lowgraph;

namespace {

// Nodes whose parameters no call sets one by one.
bool is_fixed(CUgraphNodeType type) {
    return type == CU_GRAPH_NODE_TYPE_MEM_ALLOC || type == CU_GRAPH_NODE_TYPE_MEM_FREE ||
           type == CU_GRAPH_NODE_TYPE_GRAPH || type == CU_GRAPH_NODE_TYPE_CONDITIONAL;
}

constexpr uint64_t known_flags =
    CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |
    CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;

CUresult make_exec(CUgraphExec* out, CUgraph handle, uint64_t flags, Obstacle* obstacle) {
    const Graph* const graph = find_graph(handle);
    if (out == nullptr || graph == nullptr || (flags & ~known_flags)) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult code = guard_unsafe(); code != CUDA_SUCCESS) return code;
    Exec* exec = nullptr;
    const CUresult code = instantiate(*graph, flags, &exec, obstacle);
    if (code == CUDA_SUCCESS) *out = reinterpret_cast<CUgraphExec>(exec);
    return code;
}

// A launch or upload on a stream that captures is refused like any graph launch.
CUresult route_launch(const Exec& exec, Stream& stream) {
    return route_work(stream, ImageWork{exec.image}).code;
}

CUresult fill_result(const UpdateOutcome& outcome, CUgraphExecUpdateResultInfo* info) {
    if (info != nullptr) *info = {outcome.result, handle_of(outcome.node), handle_of(outcome.from_node)};
    return outcome.result == CU_GRAPH_EXEC_UPDATE_SUCCESS ? CUDA_SUCCESS
                                                          : CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
}

// One node's new parameters for the launches to come; `read` makes its work.
template <typename Kind, typename Read>
CUresult set_in_exec(CUgraphExec exec_handle, CUgraphNode node_handle, Read read) {
    Exec* const exec = find_exec(exec_handle);
    const Node* const node = find_node(node_handle);
    const ExecNode* const now = exec != nullptr && node != nullptr ? find_exec_node(*exec, *node) : nullptr;
    if (now == nullptr || !std::holds_alternative<Kind>(now->work)) return CUDA_ERROR_INVALID_VALUE;
    ExecNode changed = *now;
    if (const CUresult code = read(&changed.work); code != CUDA_SUCCESS) return code;
    if (const CUresult code = keep_attributes(now->work, changed.work); code != CUDA_SUCCESS) return code;
    if (compare_work(now->work, changed.work) != CU_GRAPH_EXEC_UPDATE_SUCCESS) return CUDA_ERROR_INVALID_VALUE;
    replace_exec_node(*exec, *node, std::move(changed));
    return CUDA_SUCCESS;
}

template <typename Params>
auto reader(Params* params) {
    return [params](Work* work) {
        return params == nullptr ? CUDA_ERROR_INVALID_VALUE : read_params(*params, work);
    };
}

}  // namespace

// ---- Instantiation: every version of it ----
LOWGRAPH_API CUresult cuGraphInstantiateWithFlags(CUgraphExec* phGraphExec, CUgraph hGraph,
                                                  unsigned long long flags) {
    LOWGRAPH_ENTRY(context);
    if (flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD) return CUDA_ERROR_INVALID_VALUE;  // to which stream?
    Obstacle obstacle;
    return make_exec(phGraphExec, hGraph, flags, &obstacle);
}

// CUDA 10 and 11: the culprit by pointer, and room for a text.
LOWGRAPH_API CUresult cuGraphInstantiate_v2(CUgraphExec* phGraphExec, CUgraph hGraph, CUgraphNode* phErrorNode,
                                            char* logBuffer, size_t bufferSize) {
    LOWGRAPH_ENTRY(context);
    Obstacle obstacle;
    const CUresult code = make_exec(phGraphExec, hGraph, 0, &obstacle);
    if (phErrorNode != nullptr) *phErrorNode = handle_of(obstacle.node);
    if (logBuffer != nullptr && bufferSize != 0) logBuffer[0] = '\0';
    return code;
}

LOWGRAPH_API CUresult cuGraphInstantiateWithParams(CUgraphExec* phGraphExec, CUgraph hGraph,
                                                   CUDA_GRAPH_INSTANTIATE_PARAMS* params) {
    LOWGRAPH_ENTRY(context);
    if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const bool upload = params->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD;
    if (upload && find_stream(params->hUploadStream) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    Obstacle obstacle;
    const CUresult code = make_exec(phGraphExec, hGraph, params->flags, &obstacle);
    params->hErrNode_out = handle_of(obstacle.node);
    params->result_out = code == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS : obstacle.result;
    return code;
}

// Tells no flag but this one, whatever the executable was made with.
LOWGRAPH_API CUresult cuGraphExecGetFlags(CUgraphExec hGraphExec, cuuint64_t* flags) {
    LOWGRAPH_ENTRY(context);
    const Exec* const exec = find_exec(hGraphExec);
    if (exec == nullptr || flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *flags = exec->flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
    return CUDA_SUCCESS;
}

// An unsafe call in a capture, and then the executable stays.
LOWGRAPH_API CUresult cuGraphExecDestroy(CUgraphExec hGraphExec) {
    LOWGRAPH_ENTRY(graphs);
    Exec* const exec = find_exec(hGraphExec);
    if (exec == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult code = guard_unsafe(); code != CUDA_SUCCESS) return code;
    destroy_exec(*exec);
    entry.lock().unlock();
    call_user_destructors();
    return CUDA_SUCCESS;
}

// ---- Launch ----
// Images live in host memory: there is nothing to bring to the device ahead of the launch.
LOWGRAPH_API CUresult cuGraphUpload(CUgraphExec hGraphExec, CUstream hStream) {
    LOWGRAPH_STREAM_ENTRY(hStream);
    const Exec* const exec = find_exec(hGraphExec);
    Stream* const stream = find_stream(hStream);
    if (exec == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return stream == nullptr ? CUDA_ERROR_INVALID_HANDLE : route_launch(*exec, *stream);
}

LOWGRAPH_API CUresult cuGraphLaunch(CUgraphExec hGraphExec, CUstream hStream) {
    LOWGRAPH_STREAM_ENTRY(hStream);
    Exec* const exec = find_exec(hGraphExec);
    Stream* const stream = find_stream(hStream);
    if (exec == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (const CUresult code = route_launch(*exec, *stream); code != CUDA_SUCCESS) return code;
    Ticket ticket;
    if (const CUresult code = launch(*exec, *stream, &ticket); code != CUDA_SUCCESS) return code;
    return settle(entry, ticket);
}

// ---- Update ----
LOWGRAPH_API CUresult cuGraphExecUpdate_v2(CUgraphExec hGraphExec, CUgraph hGraph,
                                           CUgraphExecUpdateResultInfo* resultInfo) {
    LOWGRAPH_ENTRY(graphs);
    Exec* const exec = find_exec(hGraphExec);
    const Graph* const graph = find_graph(hGraph);
    if (exec == nullptr || graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (is_memory_taken(*graph, exec)) return CUDA_ERROR_NOT_SUPPORTED;  // with no result
    return fill_result(update(*exec, *graph), resultInfo);
}

LOWGRAPH_API CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec hGraphExec, CUgraphNode hNode,
                                                        const CUDA_KERNEL_NODE_PARAMS* params) {
    LOWGRAPH_ENTRY(context);
    return set_in_exec<KernelWork>(hGraphExec, hNode, reader(params));
}

LOWGRAPH_API CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                                     const CUDA_MEMCPY3D* params, CUcontext) {
    LOWGRAPH_ENTRY(context);
    return set_in_exec<CopyWork>(hGraphExec, hNode, reader(params));
}

LOWGRAPH_API CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                                     const CUDA_MEMSET_NODE_PARAMS* params, CUcontext) {
    LOWGRAPH_ENTRY(context);
    return set_in_exec<FillWork>(hGraphExec, hNode, reader(params));
}

LOWGRAPH_API CUresult cuGraphExecHostNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                                   const CUDA_HOST_NODE_PARAMS* params) {
    LOWGRAPH_ENTRY(context);
    return set_in_exec<HostWork>(hGraphExec, hNode, reader(params));
}

LOWGRAPH_API CUresult cuGraphExecBatchMemOpNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                                         const CUDA_BATCH_MEM_OP_NODE_PARAMS* params) {
    LOWGRAPH_ENTRY(handle);
    return set_in_exec<WordsWork>(hGraphExec, hNode, reader(params));
}

LOWGRAPH_API CUresult cuGraphExecEventRecordNodeSetEvent(CUgraphExec hGraphExec, CUgraphNode hNode,
                                                         CUevent event) {
    LOWGRAPH_ENTRY(context);
    return set_in_exec<RecordWork>(hGraphExec, hNode, [event](Work* work) { return read_record(event, work); });
}

LOWGRAPH_API CUresult cuGraphExecEventWaitNodeSetEvent(CUgraphExec hGraphExec, CUgraphNode hNode,
                                                       CUevent event) {
    LOWGRAPH_ENTRY(context);
    return set_in_exec<WaitWork>(hGraphExec, hNode, [event](Work* work) { return read_wait(event, work); });
}

static CUresult set_child(CUgraphExec hGraphExec, CUgraphNode hNode, CUgraph childGraph) {
    Exec* const exec = find_exec(hGraphExec);
    const Node* const node = find_node(hNode);
    const Graph* const child = find_graph(childGraph);
    if (exec == nullptr || node == nullptr || child == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (has_memory_nodes(*child)) return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;  // before the node is looked at
    const ExecNode* const now = find_exec_node(*exec, *node);
    if (now == nullptr || !now->child) return CUDA_ERROR_INVALID_VALUE;
    return fill_result(update_child(*exec, *node, *child), nullptr);
}

LOWGRAPH_API CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                                         CUgraph childGraph) {
    LOWGRAPH_ENTRY(context);
    return set_child(hGraphExec, hNode, childGraph);
}

LOWGRAPH_API CUresult cuGraphExecNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                               CUgraphNodeParams* params) {
    LOWGRAPH_ENTRY(context);
    const Node* const node = find_node(hNode);
    if (node == nullptr || params == nullptr || params->type != type_of(node->work))
        return CUDA_ERROR_INVALID_VALUE;
    if (params->type == CU_GRAPH_NODE_TYPE_GRAPH) return set_child(hGraphExec, hNode, params->graph.graph);
    if (is_fixed(params->type)) return CUDA_ERROR_NOT_SUPPORTED;
    return std::visit(
        [&](const auto& kind) {
            return set_in_exec<std::decay_t<decltype(kind)>>(hGraphExec, hNode, reader(params));
        },
        node->work);
}
