// Edge data: which end of a node an edge begins at. A kernel has three: its end (port 0), its trigger
// (port 1), and the start of its last block (port 2). On a CPU every edge waits for the node's end; what an
// edge says of itself is kept and told. The rules are rows that a real driver answered (tests/traces).
// All need big_lock.
#pragma once
#include "model.h"

namespace lowgraph {

constexpr CUgraphEdgeData plain_edge{};
constexpr CUgraphEdgeData trigger_edge{CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC, 0,
                                       CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC, {}};
constexpr CUgraphEdgeData start_edge{CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER, 0, CU_GRAPH_DEPENDENCY_TYPE_DEFAULT, {}};

bool is_plain(const CUgraphEdgeData& data);
bool is_same(const CUgraphEdgeData& one, const CUgraphEdgeData& other);

// The data of the edge from that node; plain unless it is in the table.
template <typename Table, typename Before>
CUgraphEdgeData data_of(const Table& table, Before before) {
    const auto spot = table.find(before);
    return spot == table.end() ? plain_edge : spot->second;
}

// Of an edge of a graph that is built by hand: INVALID_VALUE unless it is plain, or begins at a kernel's
// trigger or start and leads to a kernel.
CUresult check_edge(const CUgraphEdgeData& data, const Node& from, bool to_kernel);

// ---- Captures ----
// What a caller says of the edges to the next node; `data` null: plain ones. NOT_SUPPORTED for data that no
// edge has, or from no kernel: what the driver says of those was not recorded.
CUresult read_tail(std::vector<Node*>&& nodes, const CUgraphEdgeData* data, Tail* tail);
// Adds what is not there. Between two nodes is one edge: the plain one, if either is.
void join_tail(Tail& tail, const Tail& more);
// The next node may begin early: at the triggers of the kernels that it would wait for.
void start_early(Tail& tail);

}  // namespace lowgraph
