// Between the model's objects and the handles that callers hold.
#pragma once
#include "model.h"

namespace lowgraph {

inline CUgraph handle_of(const Graph* graph) { return reinterpret_cast<CUgraph>(const_cast<Graph*>(graph)); }
inline CUgraphNode handle_of(const Node* node) { return reinterpret_cast<CUgraphNode>(const_cast<Node*>(node)); }
inline CUevent handle_of(const Event* event) { return reinterpret_cast<CUevent>(const_cast<Event*>(event)); }
inline CUfunction handle_of(const Function* function) {
    return reinterpret_cast<CUfunction>(const_cast<Function*>(function));
}

// A list of node handles as the driver's calls pass them; false: one is not a live node of `graph`
// (of any graph when it is null).
bool read_nodes(const CUgraphNode* handles, size_t count, const Graph* graph, std::vector<Node*>* nodes);

// The driver's rule for lists that it fills: without `out`, `*count` becomes the number there are; with
// it, as many as fit are written, the rest of the room is nulled, and `*count` becomes what was written.
CUresult write_nodes(const std::vector<const Node*>& nodes, CUgraphNode* out, size_t* count);

}  // namespace lowgraph
