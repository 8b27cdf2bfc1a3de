// Entry points of graphs as a whole: made, cloned, asked for nodes and edges, rewired, destroyed.
#include <algorithm>
#include <fstream>

#include "capture_state.h"
#include "conditional.h"
#include "edge_data.h"
#include "entry.h"
#include "graph.h"
#include "handles.h"
#include "user_object.h"

using namespace lowgraph;

namespace {

// A graph that a stream records into, or into a body of which one does, keeps its nodes until then.
bool is_captured_into(const Graph& graph) {
    for (const std::shared_ptr<Capture>& capture : live_captures())
        if (is_inside(graph_of(*capture), graph)) return true;
    return false;
}

struct EdgeRoom {
    CUgraphNode* from;
    CUgraphNode* to;
    CUgraphEdgeData* data;  // null: only plain edges may be listed
    size_t* count;
};

// A list of ends alone would lose what the edges say.
bool is_lossy(const std::vector<CUgraphEdgeData>& all, const CUgraphNode* ends, const CUgraphEdgeData* data) {
    return ends != nullptr && data == nullptr && !std::all_of(all.begin(), all.end(), is_plain);
}

// Edges node by node in order of creation, as the driver lists them.
CUresult list_edges(CUgraph handle, const EdgeRoom& room) {
    const Graph* const graph = find_graph(handle);
    if (graph == nullptr || room.count == nullptr || (room.from == nullptr) != (room.to == nullptr))
        return CUDA_ERROR_INVALID_VALUE;
    std::vector<const Node*> from, to;
    std::vector<CUgraphEdgeData> data;
    for (const Node& node : graph->nodes)
        for (const Node* after : node.after) {
            from.push_back(&node);
            to.push_back(after);
            data.push_back(data_of(after->data, &node));
        }
    if (is_lossy(data, room.from, room.data)) return CUDA_ERROR_LOSSY_QUERY;
    size_t written = *room.count;
    const CUresult code = write_nodes(from, room.from, &written);
    if (code != CUDA_SUCCESS) return code;
    write_nodes(to, room.to, room.count);
    if (room.data != nullptr && room.from != nullptr) std::copy_n(data.begin(), written, room.data);
    return CUDA_SUCCESS;
}

enum class Side { before, after };

CUresult list_neighbours(CUgraphNode handle, Side side, CUgraphNode* out, CUgraphEdgeData* data,
                         size_t* count) {
    const Node* const node = find_node(handle);
    if (node == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const std::vector<Node*>& all = side == Side::before ? node->before : node->after;
    std::vector<CUgraphEdgeData> told;
    for (const Node* other : all)
        told.push_back(side == Side::before ? data_of(node->data, other) : data_of(other->data, node));
    if (is_lossy(told, out, data)) return CUDA_ERROR_LOSSY_QUERY;
    const CUresult code = write_nodes({all.begin(), all.end()}, out, count);
    if (code == CUDA_SUCCESS && data != nullptr && out != nullptr) std::copy_n(told.begin(), *count, data);
    return code;
}

// `change` is called with the ends of each edge and its number.
template <typename Change>
CUresult rewire(CUgraph handle, const CUgraphNode* from, const CUgraphNode* to, size_t count, Change change) {
    const Graph* const graph = find_graph(handle);
    std::vector<Node*> starts, ends;
    if (graph == nullptr || !read_nodes(from, count, graph, &starts) || !read_nodes(to, count, graph, &ends))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; ++i)
        if (const CUresult code = change(*starts[i], *ends[i], i); code != CUDA_SUCCESS) return code;
    return CUDA_SUCCESS;
}

// data: null for plain edges.
CUresult add_edges(CUgraph handle, const CUgraphNode* from, const CUgraphNode* to, const CUgraphEdgeData* data,
                   size_t count) {
    return rewire(handle, from, to, count, [data](Node& start, Node& end, size_t number) {
        const CUgraphEdgeData& told = data == nullptr ? plain_edge : data[number];
        const CUresult code = check_edge(told, start, std::holds_alternative<KernelWork>(end.work));
        return code != CUDA_SUCCESS ? code : connect(start, end, told);
    });
}

// The edges of a graph with memory nodes stay, its nodes too; this is told before all else.
CUresult remove_edges(CUgraph handle, const CUgraphNode* from, const CUgraphNode* to, size_t count) {
    const Graph* const graph = find_graph(handle);
    if (graph != nullptr && has_memory_nodes(*graph)) return CUDA_ERROR_NOT_SUPPORTED;
    return rewire(handle, from, to, count, [](Node& start, Node& end, size_t) { return disconnect(start, end); });
}

}  // namespace

LOWGRAPH_API CUresult cuGraphCreate(CUgraph* phGraph, unsigned int flags) {
    LOWGRAPH_ENTRY(graphs);
    if (phGraph == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    *phGraph = handle_of(create_graph());
    return CUDA_SUCCESS;
}

LOWGRAPH_API CUresult cuGraphDestroy(CUgraph hGraph) {
    LOWGRAPH_ENTRY(graphs);
    Graph* const graph = find_graph(hGraph);
    if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (is_captured_into(*graph)) return CUDA_ERROR_ILLEGAL_STATE;  // seen on driver 580.159
    const CUresult code = destroy_graph(*graph);
    entry.lock().unlock();
    call_user_destructors();
    return code;
}

LOWGRAPH_API CUresult cuGraphClone(CUgraph* phGraphClone, CUgraph originalGraph) {
    LOWGRAPH_ENTRY(graphs);
    const Graph* const original = find_graph(originalGraph);
    if (phGraphClone == nullptr || original == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (!may_be_copied(*original)) return CUDA_ERROR_NOT_SUPPORTED;
    *phGraphClone = handle_of(adopt_graph(clone_graph(*original)));
    return CUDA_SUCCESS;
}

LOWGRAPH_API CUresult cuGraphNodeFindInClone(CUgraphNode* phNode, CUgraphNode hOriginalNode,
                                             CUgraph hClonedGraph) {
    LOWGRAPH_ENTRY(graphs);
    const Node* const original = find_node(hOriginalNode);
    Graph* const clone = find_graph(hClonedGraph);
    if (phNode == nullptr || original == nullptr || clone == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const Node* const twin = find_in_clone(*original, *clone);
    if (twin == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *phNode = handle_of(twin);
    return CUDA_SUCCESS;
}

LOWGRAPH_API CUresult cuGraphNodeGetType(CUgraphNode hNode, CUgraphNodeType* type) {
    LOWGRAPH_ENTRY(graphs);
    const Node* const node = find_node(hNode);
    if (node == nullptr || type == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *type = type_of(node->work);
    return CUDA_SUCCESS;
}

LOWGRAPH_API CUresult cuGraphGetNodes(CUgraph hGraph, CUgraphNode* nodes, size_t* numNodes) {
    LOWGRAPH_ENTRY(graphs);
    const Graph* const graph = find_graph(hGraph);
    if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::vector<const Node*> all;
    for (const Node& node : graph->nodes) all.push_back(&node);
    return write_nodes(all, nodes, numNodes);
}

LOWGRAPH_API CUresult cuGraphGetRootNodes(CUgraph hGraph, CUgraphNode* rootNodes, size_t* numRootNodes) {
    LOWGRAPH_ENTRY(graphs);
    const Graph* const graph = find_graph(hGraph);
    if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::vector<const Node*> roots;
    for (const Node& node : graph->nodes)
        if (node.before.empty()) roots.push_back(&node);
    return write_nodes(roots, rootNodes, numRootNodes);
}

LOWGRAPH_API CUresult cuGraphGetEdges(CUgraph hGraph, CUgraphNode* from, CUgraphNode* to, size_t* numEdges) {
    LOWGRAPH_ENTRY(graphs);
    return list_edges(hGraph, {from, to, nullptr, numEdges});
}

LOWGRAPH_API CUresult cuGraphGetEdges_v2(CUgraph hGraph, CUgraphNode* from, CUgraphNode* to,
                                         CUgraphEdgeData* edgeData, size_t* numEdges) {
    LOWGRAPH_ENTRY(graphs);
    return list_edges(hGraph, {from, to, edgeData, numEdges});
}

LOWGRAPH_API CUresult cuGraphNodeGetDependencies(CUgraphNode hNode, CUgraphNode* dependencies, size_t* count) {
    LOWGRAPH_ENTRY(graphs);
    return list_neighbours(hNode, Side::before, dependencies, nullptr, count);
}

LOWGRAPH_API CUresult cuGraphNodeGetDependencies_v2(CUgraphNode hNode, CUgraphNode* dependencies,
                                                    CUgraphEdgeData* edgeData, size_t* count) {
    LOWGRAPH_ENTRY(graphs);
    return list_neighbours(hNode, Side::before, dependencies, edgeData, count);
}

LOWGRAPH_API CUresult cuGraphNodeGetDependentNodes(CUgraphNode hNode, CUgraphNode* dependents, size_t* count) {
    LOWGRAPH_ENTRY(graphs);
    return list_neighbours(hNode, Side::after, dependents, nullptr, count);
}

LOWGRAPH_API CUresult cuGraphNodeGetDependentNodes_v2(CUgraphNode hNode, CUgraphNode* dependents,
                                                      CUgraphEdgeData* edgeData, size_t* count) {
    LOWGRAPH_ENTRY(graphs);
    return list_neighbours(hNode, Side::after, dependents, edgeData, count);
}

LOWGRAPH_API CUresult cuGraphAddDependencies(CUgraph hGraph, const CUgraphNode* from, const CUgraphNode* to,
                                             size_t count) {
    LOWGRAPH_ENTRY(graphs);
    return add_edges(hGraph, from, to, nullptr, count);
}

LOWGRAPH_API CUresult cuGraphAddDependencies_v2(CUgraph hGraph, const CUgraphNode* from, const CUgraphNode* to,
                                                const CUgraphEdgeData* edgeData, size_t count) {
    LOWGRAPH_ENTRY(graphs);
    return add_edges(hGraph, from, to, edgeData, count);
}

LOWGRAPH_API CUresult cuGraphRemoveDependencies(CUgraph hGraph, const CUgraphNode* from, const CUgraphNode* to,
                                                size_t count) {
    LOWGRAPH_ENTRY(graphs);
    return remove_edges(hGraph, from, to, count);
}

LOWGRAPH_API CUresult cuGraphRemoveDependencies_v2(CUgraph hGraph, const CUgraphNode* from,
                                                   const CUgraphNode* to, const CUgraphEdgeData*,
                                                   size_t count) {
    LOWGRAPH_ENTRY(graphs);  // as on driver 580.159, an edge goes whatever is said of it
    return remove_edges(hGraph, from, to, count);
}

LOWGRAPH_API CUresult cuGraphDestroyNode(CUgraphNode hNode) {
    LOWGRAPH_ENTRY(graphs);
    Node* const node = find_node(hNode);
    if (node == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (is_captured_into(*node->graph)) return CUDA_ERROR_ILLEGAL_STATE;  // seen on driver 580.159
    if (has_memory_nodes(*node->graph)) return CUDA_ERROR_NOT_SUPPORTED;
    remove_node(*node);
    return CUDA_SUCCESS;
}

LOWGRAPH_API CUresult cuGraphDebugDotPrint(CUgraph hGraph, const char* path, unsigned int flags) {
    LOWGRAPH_ENTRY(graphs);
    const Graph* const graph = find_graph(hGraph);
    if (graph == nullptr || path == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::ofstream file(path);
    file << dot_text(*graph, flags);
    return file.good() ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}
