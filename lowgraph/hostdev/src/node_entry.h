// What the entry points of single nodes share: a node is added or set once its parameters are read.
#pragma once
#include <algorithm>

#include "context.h"
#include "edge_data.h"
#include "entry.h"
#include "graph.h"
#include "handles.h"
#include "node_params.h"

namespace lowgraph {

struct NewNode {
    CUgraphNode* out;
    CUgraph graph;
    const CUgraphNode* dependencies;
    size_t count;
    const CUgraphEdgeData* data = nullptr;  // of the edges; null: plain
};

inline bool names_one_twice(std::vector<Node*> nodes) {
    std::sort(nodes.begin(), nodes.end());
    return std::adjacent_find(nodes.begin(), nodes.end()) != nodes.end();
}

// `read` turns the caller's parameters into work, once the graph and the dependencies are known good.
template <typename Read>
CUresult add(const NewNode& wanted, Read read) {
    Graph* const graph = find_graph(wanted.graph);
    std::vector<Node*> dependencies;
    if (wanted.out == nullptr || graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (!read_nodes(wanted.dependencies, wanted.count, graph, &dependencies)) return CUDA_ERROR_INVALID_VALUE;
    if (names_one_twice(dependencies)) return CUDA_ERROR_INVALID_VALUE;
    Work work;
    if (const CUresult code = read(&work); code != CUDA_SUCCESS) return code;
    if (const auto* free = std::get_if<FreeWork>(&work))
        if (const CUresult code = check_free_node(*graph, free->address); code != CUDA_SUCCESS) return code;
    Tail tail;
    const bool is_kernel = std::holds_alternative<KernelWork>(work);
    for (size_t i = 0; wanted.data != nullptr && i < wanted.count; ++i) {
        if (const CUresult code = check_edge(wanted.data[i], *dependencies[i], is_kernel); code != CUDA_SUCCESS)
            return code;
        if (!is_plain(wanted.data[i])) tail.data[dependencies[i]] = wanted.data[i];
    }
    tail.nodes = std::move(dependencies);
    *wanted.out = handle_of(&add_node(*graph, std::move(work), tail));
    return CUDA_SUCCESS;
}

// The node and its work of the wanted kind; null: another kind or no node.
template <typename Kind>
Kind* work_of(CUgraphNode handle) {
    Node* const node = find_node(handle);
    return node == nullptr ? nullptr : std::get_if<Kind>(&node->work);
}

template <typename Kind, typename Read>
CUresult set(CUgraphNode handle, Read read) {
    if (work_of<Kind>(handle) == nullptr) return CUDA_ERROR_INVALID_VALUE;
    Node* const node = find_node(handle);
    Work work = node->work;
    if (const CUresult code = read(&work); code != CUDA_SUCCESS) return code;
    if (work.index() != node->work.index()) return CUDA_ERROR_INVALID_VALUE;
    keep_attributes(node->work, work);
    node->work = std::move(work);
    return CUDA_SUCCESS;
}

template <typename Params>
auto reader(Params* params) {
    return [params](Work* work) {
        return params == nullptr ? CUDA_ERROR_INVALID_VALUE : read_params(*params, work);
    };
}

// Of a copy or a memset, with the call's context.
template <typename Params>
auto reader(Params* params, CUcontext context) {
    return [read = reader(params), context](Work* work) {
        const CUresult code = read(work);
        if (code == CUDA_SUCCESS) set_context(*work, find_context(context));
        return code;
    };
}

}  // namespace lowgraph
