#include "edge_data.h"

#include <algorithm>

namespace lowgraph {
namespace {

bool is_kernel(const Node& node) { return std::holds_alternative<KernelWork>(node.work); }

// From a kernel to another.
bool is_early(const CUgraphEdgeData& data) {
    if (data.to_port != 0) return false;
    if (data.type == CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC)
        return data.from_port == CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC ||
               data.from_port == CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER;
    return data.type == CU_GRAPH_DEPENDENCY_TYPE_DEFAULT && data.from_port == CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER;
}

void keep(EdgeTable<const Node*>& table, const Node* before, const CUgraphEdgeData& data) {
    if (!is_plain(data)) table.emplace(before, CUgraphEdgeData{data.from_port, data.to_port, data.type, {}});
}

}  // namespace

bool is_plain(const CUgraphEdgeData& data) { return is_same(data, plain_edge); }

bool is_same(const CUgraphEdgeData& one, const CUgraphEdgeData& other) {
    return one.from_port == other.from_port && one.to_port == other.to_port && one.type == other.type;
}

CUresult check_edge(const CUgraphEdgeData& data, const Node& from, bool to_kernel) {
    if (is_plain(data)) return CUDA_SUCCESS;
    if (!is_early(data)) return CUDA_ERROR_INVALID_VALUE;
    if (is_kernel(from) && to_kernel) return CUDA_SUCCESS;
    // Programmatic ones are kernels' alone. A plain one from a kernel's start to another node was not recorded.
    return data.type == CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_NOT_SUPPORTED;
}

CUresult read_tail(std::vector<Node*>&& nodes, const CUgraphEdgeData* data, Tail* tail) {
    for (size_t i = 0; data != nullptr && i < nodes.size(); ++i) {
        const bool known = is_plain(data[i]) || (is_early(data[i]) && is_kernel(*nodes[i]));
        if (!known) return CUDA_ERROR_NOT_SUPPORTED;
        keep(tail->data, nodes[i], data[i]);
    }
    tail->nodes = std::move(nodes);
    return CUDA_SUCCESS;
}

void join_tail(Tail& tail, const Tail& more) {
    for (Node* node : more.nodes) {
        const CUgraphEdgeData data = data_of(more.data, node);
        const bool is_there = std::find(tail.nodes.begin(), tail.nodes.end(), node) != tail.nodes.end();
        if (is_there && is_plain(data)) tail.data.erase(node);
        if (is_there) continue;
        tail.nodes.push_back(node);
        keep(tail.data, node, data);
    }
}

void start_early(Tail& tail) {
    for (const Node* node : tail.nodes)
        if (is_kernel(*node)) keep(tail.data, node, trigger_edge);
}

}  // namespace lowgraph
