// Entry points that switch nodes of an executable off and on.
#include "entry.h"
#include "exec.h"

using namespace lowgraph;

// The types that can be disabled, and asked whether they are.
static bool is_switchable(const ExecNode& node) {
    const CUgraphNodeType type = type_of(node.work);
    return type == CU_GRAPH_NODE_TYPE_KERNEL || type == CU_GRAPH_NODE_TYPE_MEMSET ||
           type == CU_GRAPH_NODE_TYPE_MEMCPY;
}

LOWGRAPH_API CUresult cuGraphNodeSetEnabled(CUgraphExec hGraphExec, CUgraphNode hNode, unsigned int isEnabled) {
    LOWGRAPH_ENTRY(context);
    Exec* const exec = find_exec(hGraphExec);
    const Node* const node = find_node(hNode);
    const ExecNode* const now = exec != nullptr && node != nullptr ? find_exec_node(*exec, *node) : nullptr;
    if (now == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (!is_switchable(*now)) return CUDA_ERROR_INVALID_VALUE;
    ExecNode changed = *now;
    changed.enabled = isEnabled != 0;
    replace_exec_node(*exec, *node, std::move(changed));
    return CUDA_SUCCESS;
}

LOWGRAPH_API CUresult cuGraphNodeGetEnabled(CUgraphExec hGraphExec, CUgraphNode hNode, unsigned int* isEnabled) {
    LOWGRAPH_ENTRY(handle);
    const Exec* const exec = find_exec(hGraphExec);
    const Node* const node = find_node(hNode);
    const ExecNode* const now = exec != nullptr && node != nullptr ? find_exec_node(*exec, *node) : nullptr;
    if (now == nullptr || isEnabled == nullptr || !is_switchable(*now)) return CUDA_ERROR_INVALID_VALUE;
    *isEnabled = now->enabled;
    return CUDA_SUCCESS;
}
