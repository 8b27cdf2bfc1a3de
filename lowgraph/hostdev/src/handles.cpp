#include "handles.h"

#include "graph.h"

namespace lowgraph {

bool read_nodes(const CUgraphNode* handles, size_t count, const Graph* graph, std::vector<Node*>* nodes) {
    if (count != 0 && handles == nullptr) return false;
    for (size_t i = 0; i < count; ++i) {
        Node* const node = find_node(handles[i]);
        if (node == nullptr || (graph != nullptr && node->graph != graph)) return false;
        nodes->push_back(node);
    }
    return true;
}

CUresult write_nodes(const std::vector<const Node*>& nodes, CUgraphNode* out, size_t* count) {
    if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (out == nullptr) {
        *count = nodes.size();
        return CUDA_SUCCESS;
    }
    for (size_t i = 0; i < *count; ++i) out[i] = i < nodes.size() ? handle_of(nodes[i]) : nullptr;
    if (*count > nodes.size()) *count = nodes.size();
    return CUDA_SUCCESS;
}

}  // namespace lowgraph
