// Graphs under construction: nodes, edges, ownership, clones. All functions need big_lock.
#pragma once
#include <unordered_set>

#include "model.h"

namespace lowgraph {

// ---- Handles ----
Graph* create_graph();  // owned by the registry until destroy_graph
Graph* adopt_graph(std::unique_ptr<Graph> graph);
Graph* find_graph(CUgraph handle);      // null: not a live graph
Node* find_node(CUgraphNode handle);    // null: not a node of a live graph
// INVALID_VALUE for a graph that a node or a capture owns.
CUresult destroy_graph(Graph& graph);
void destroy_graphs();  // context teardown
// A capture into it failed, and the real driver frees it: an owned graph is destroyed; a body, which its
// node still holds, is emptied and lost.
void lose_graph(Graph& graph);

// ---- Nodes and edges ----
Node& add_node(Graph& graph, Work&& work, const Tail& dependencies);
void remove_node(Node& node);
// INVALID_VALUE: another graph's node, the node itself, or an edge that exists (or does not). An edge
// may close a cycle, as on driver 580.159: instantiation is what refuses the graph.
CUresult connect(Node& from, Node& to, const CUgraphEdgeData& data);
CUresult disconnect(Node& from, Node& to);
CUgraphNodeType type_of(const Work& work);
void set_context(Work& work, const Context* context);  // of a copy or a memset

// ---- Whole graphs ----
// Of a graph without memory or conditional nodes; child graphs are cloned with it.
std::unique_ptr<Graph> clone_graph(const Graph& original);
Node* find_in_clone(const Node& original, Graph& clone);
bool is_cloned(const Graph& graph);  // a clone of it is there, or a child graph that was made of it
bool has_memory_nodes(const Graph& graph);
// Whether the graph may have a node that frees the address: INVALID_VALUE for memory from outside graphs,
// for what the graph itself or the graph of the allocation frees already, and for an allocation of this
// graph that an executable has. A refusal makes the graph one with memory nodes.
CUresult check_free_node(Graph& graph, uint64_t address);
// The nodes and everything they depend on.
std::unordered_set<const Node*> ancestry(const std::vector<Node*>& nodes);
// Each node after those that it depends on; among those that are free, the oldest first.
std::vector<const Node*> topological_order(const Graph& graph);
// What cuGraphDebugDotPrint writes; the flags are its own.
std::string dot_text(const Graph& graph, unsigned flags);

}  // namespace lowgraph
