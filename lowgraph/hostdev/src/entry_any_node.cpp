// Entry points of nodes of any kind, by the one struct, and of the conditional nodes that only it makes.
#include "conditional.h"
#include "context.h"
#include "node_entry.h"

using namespace lowgraph;

namespace {

// The bodies' handles come back in the struct.
CUresult add_any(const NewNode& wanted, CUgraphNodeParams* params) {
    if (params == nullptr || params->type != CU_GRAPH_NODE_TYPE_CONDITIONAL) return add(wanted, reader(params));
    return add(wanted, [&wanted, params](Work* work) {
        return read_conditional(params->conditional, *find_graph(wanted.graph), work);
    });
}

}  // namespace

LOWGRAPH_API CUresult cuGraphConditionalHandleCreate(CUgraphConditionalHandle* pHandle_out, CUgraph hGraph,
                                                     CUcontext ctx, unsigned int defaultLaunchValue,
                                                     unsigned int flags) {
    LOWGRAPH_ENTRY(context);
    Graph* const graph = find_graph(hGraph);
    const Context* const context = find_context(ctx);
    if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    if (context->destroyed) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (pHandle_out == nullptr || graph == nullptr || (flags & ~CU_GRAPH_COND_ASSIGN_DEFAULT) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    *pHandle_out = create_condition(*graph, *context, defaultLaunchValue, flags & CU_GRAPH_COND_ASSIGN_DEFAULT)->id;
    return CUDA_SUCCESS;
}

LOWGRAPH_API CUresult cuGraphAddNode(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                                     size_t count, CUgraphNodeParams* params) {
    LOWGRAPH_ENTRY(context);
    return add_any({phGraphNode, hGraph, dependencies, count}, params);
}

LOWGRAPH_API CUresult cuGraphAddNode_v2(CUgraphNode* phGraphNode, CUgraph hGraph,
                                        const CUgraphNode* dependencies, const CUgraphEdgeData* edgeData,
                                        size_t count, CUgraphNodeParams* params) {
    LOWGRAPH_ENTRY(context);
    return add_any({phGraphNode, hGraph, dependencies, count, edgeData}, params);
}

LOWGRAPH_API CUresult cuGraphNodeSetParams(CUgraphNode hNode, CUgraphNodeParams* params) {
    LOWGRAPH_ENTRY(context);
    const Node* const node = find_node(hNode);
    if (node == nullptr || params == nullptr || params->type != type_of(node->work))
        return CUDA_ERROR_INVALID_VALUE;
    const bool fixed = params->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC ||
                       params->type == CU_GRAPH_NODE_TYPE_GRAPH || params->type == CU_GRAPH_NODE_TYPE_CONDITIONAL;
    if (fixed) return CUDA_ERROR_NOT_SUPPORTED;
    return std::visit([&](const auto& kind) { return set<std::decay_t<decltype(kind)>>(hNode, reader(params)); },
                      node->work);
}
