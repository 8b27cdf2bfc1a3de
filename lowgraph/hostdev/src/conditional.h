// Conditional nodes: IF, WHILE and SWITCH over body graphs, and the variables that kernels set for them.
// The rules are rows that a real driver answered (tests/traces).
#pragma once
#include <atomic>

#include "graph.h"

namespace lowgraph {

// What a CUgraphConditionalHandle names. Kernels write `value`, also after the graph was destroyed: the
// executables made from it keep the object.
struct Condition {
    uint64_t id = 0;         // the handle
    const Context* context = nullptr;
    uint64_t graph_uid = 0;  // of the outermost graph around the one that it was made for
    unsigned initial = 0;    // at the begin of each launch, if `assigned`
    bool assigned = false;   // CU_GRAPH_COND_ASSIGN_DEFAULT
    bool has_node = false;
    std::atomic<unsigned> value{0};
};
// A conditional node's graphs, and the array of their handles that cuGraphAddNode hands out. They go
// with the node, and its condition may have another one then.
struct ConditionalBodies {
    explicit ConditionalBodies(std::shared_ptr<Condition> condition) : condition(std::move(condition)) {
        this->condition->has_node = true;
    }
    ~ConditionalBodies() { condition->has_node = false; }
    ConditionalBodies(const ConditionalBodies&) = delete;
    ConditionalBodies& operator=(const ConditionalBodies&) = delete;

    std::shared_ptr<Condition> condition;
    std::vector<std::unique_ptr<Graph>> graphs;
    std::vector<CUgraph> handles;
};

// ---- Construction (big_lock) ----
std::shared_ptr<Condition> create_condition(Graph& graph, const Context& context, unsigned initial, bool assigned);
// INVALID_VALUE: no such handle, one that has a node, or one of another graph; a size or type that
// there is not; another context than the current one and the handle's. On success `phGraph_out` is set.
CUresult read_conditional(CUDA_CONDITIONAL_NODE_PARAMS& params, const Graph& graph, Work* work);
bool has_conditional_nodes(const Graph& graph);
bool had_conditions(const Graph& graph);  // a handle was made for it, whether or not a node is there
// Whether it may have a clone or be a child: not a graph with memory nodes or handles, whose addresses and
// conditions are its own, and not a body.
bool may_be_copied(const Graph& graph);
bool is_inside(const Graph& graph, const Graph& outer);  // a body of it, at any depth, or itself

// A body, at any depth, into which a capture failed: from here on the real driver reads freed memory and
// ends the process. Here the graph's end of capture and its instantiation answer this code instead.
bool has_lost_body(const Graph& graph);
CUresult lost_body_error();

// ---- Instantiation (big_lock) ----
// The node of a body, at any depth, that cannot be there; null: the bodies are good.
const Node* find_illegal(const ConditionalWork& work);
// Whether a conditional in a body has another context than the one around it.
bool mixes_contexts(const Graph& graph, const Context* around = nullptr);
bool has_unused_condition(const Graph& graph);  // a handle without a node, here or in a body
// The bodies' images, ready to run, in the place of the graphs: those go with the node.
void images_for_bodies(ConditionalWork& work, bool by_priority);
// All conditions that a launch of the graph gives their defaults to.
std::vector<std::shared_ptr<Condition>> assigned_conditions(const Graph& graph);

// ---- Running (no lock) ----
CUresult run_conditional(const ConditionalWork& work);

}  // namespace lowgraph
