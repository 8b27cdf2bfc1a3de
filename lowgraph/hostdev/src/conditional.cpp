#include "conditional.h"

#include <algorithm>

#include "../include/cuda_on_host/abi.h"
#include "context.h"
#include "exec.h"
#include "handles.h"
#include "memory.h"
#include "race_order.h"

namespace lowgraph {
namespace {

// Looked up by kernels, which run without big_lock: the table has a lock of its own.
struct Table {
    std::mutex lock;
    std::unordered_map<uint64_t, std::weak_ptr<Condition>> conditions;
    uint64_t next_id = 1;
};

Table& table() {
    static Table* const instance = new Table;
    return *instance;
}

std::shared_ptr<Condition> find_condition(uint64_t id) {
    const std::lock_guard<std::mutex> hold(table().lock);
    const auto found = table().conditions.find(id);
    return found == table().conditions.end() ? nullptr : found->second.lock();
}

bool is_size(CUgraphConditionalNodeType type, unsigned size) {
    switch (type) {
        case CU_GRAPH_COND_TYPE_IF: return size == 1 || size == 2;
        case CU_GRAPH_COND_TYPE_WHILE: return size == 1;
        case CU_GRAPH_COND_TYPE_SWITCH: return size != 0;
        default: return false;
    }
}

// A graph and all bodies in it share their conditions.
uint64_t outermost(const Graph& graph) { return graph.inside.empty() ? graph.uid : graph.inside.front(); }

std::unique_ptr<Graph> make_body(const Graph& owner) {
    auto body = std::make_unique<Graph>();
    body->inside = owner.inside;
    body->inside.push_back(owner.uid);
    return body;
}

bool is_pageable(CUmemorytype kind, uint64_t address) {
    return kind == CU_MEMORYTYPE_HOST && !is_pinned(address, 1);
}

// Kernels, empty nodes, memsets, copies, child graphs and conditionals may be in a body; copies not
// from or to pageable memory.
bool may_be_in_body(const Work& work) {
    switch (type_of(work)) {
        case CU_GRAPH_NODE_TYPE_KERNEL:
        case CU_GRAPH_NODE_TYPE_EMPTY:
        case CU_GRAPH_NODE_TYPE_MEMSET:
        case CU_GRAPH_NODE_TYPE_GRAPH:
        case CU_GRAPH_NODE_TYPE_CONDITIONAL: return true;
        case CU_GRAPH_NODE_TYPE_MEMCPY: {
            const auto& copy = std::get<CopyWork>(work);
            return !is_pageable(copy.dst_kind, copy.dst) && !is_pageable(copy.src_kind, copy.src);
        }
        default: return false;
    }
}

const Node* find_illegal(const Graph& body) {
    for (const Node& node : body.nodes) {
        if (!may_be_in_body(node.work)) return &node;
        const Node* inner = nullptr;
        if (const auto* child = std::get_if<ChildWork>(&node.work)) inner = find_illegal(*child->graph);
        if (const auto* nested = std::get_if<ConditionalWork>(&node.work)) inner = find_illegal(*nested);
        if (inner != nullptr) return inner;
    }
    return nullptr;
}

template <typename Visit>
void for_each_body(const Graph& graph, Visit visit) {
    for (const Node& node : graph.nodes)
        if (const auto* conditional = std::get_if<ConditionalWork>(&node.work))
            for (const auto& body : conditional->bodies->graphs) visit(*body);
}

}  // namespace

std::shared_ptr<Condition> create_condition(Graph& graph, unsigned initial, bool assigned) {
    auto made = std::make_shared<Condition>();
    made->graph_uid = outermost(graph);
    made->initial = initial;
    made->assigned = assigned;
    const std::lock_guard<std::mutex> hold(table().lock);
    std::erase_if(table().conditions, [](const auto& entry) { return entry.second.expired(); });
    made->id = table().next_id++;
    table().conditions[made->id] = made;
    graph.conditions.push_back(made);
    return made;
}

CUresult read_conditional(CUDA_CONDITIONAL_NODE_PARAMS& params, const Graph& graph, Work* work) {
    std::shared_ptr<Condition> condition = find_condition(params.handle);
    const bool known = condition != nullptr && !condition->has_node && condition->graph_uid == outermost(graph);
    const bool here = find_context(params.ctx) == current_context();
    if (!known || !here || !is_size(params.type, params.size)) return CUDA_ERROR_INVALID_VALUE;
    auto bodies = std::make_shared<ConditionalBodies>(condition);
    for (unsigned i = 0; i < params.size; ++i) {
        bodies->graphs.push_back(make_body(graph));
        bodies->handles.push_back(handle_of(bodies->graphs.back().get()));
    }
    params.phGraph_out = bodies->handles.data();
    *work = ConditionalWork{std::move(condition), params.type, std::move(bodies), {}};
    return CUDA_SUCCESS;
}

bool has_conditional_nodes(const Graph& graph) {
    return std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const Node& node) {
        const auto* const child = std::get_if<ChildWork>(&node.work);
        return child != nullptr ? has_conditional_nodes(*child->graph)
                                : std::holds_alternative<ConditionalWork>(node.work);
    });
}

bool may_be_copied(const Graph& graph) {
    const bool plain = !graph.held_conditional && !has_conditional_nodes(graph);
    return plain && graph.inside.empty() && !has_memory_nodes(graph);
}

bool is_inside(const Graph& graph, const Graph& outer) {
    return &graph == &outer || std::count(graph.inside.begin(), graph.inside.end(), outer.uid) != 0;
}

bool has_lost_body(const Graph& graph) {
    bool lost = graph.lost;
    for_each_body(graph, [&lost](const Graph& body) { lost = lost || has_lost_body(body); });
    return lost;
}

CUresult lost_body_error() {
    note("a capture into the body of a conditional node failed before: the real driver would end the process here");
    return CUDA_ERROR_UNKNOWN;
}

const Node* find_illegal(const ConditionalWork& work) {
    for (const auto& body : work.bodies->graphs)
        if (const Node* illegal = find_illegal(*body)) return illegal;
    return nullptr;
}

bool has_unused_condition(const Graph& graph) {
    bool unused = std::any_of(graph.conditions.begin(), graph.conditions.end(),
                              [](const auto& condition) { return !condition->has_node; });
    for_each_body(graph, [&unused](const Graph& body) { unused = unused || has_unused_condition(body); });
    return unused;
}

void images_for_bodies(ConditionalWork& work) {
    work.images.clear();
    for (const auto& body : work.bodies->graphs) work.images.push_back(make_image(*body));
    work.bodies.reset();
}

std::vector<std::shared_ptr<Condition>> assigned_conditions(const Graph& graph) {
    std::vector<std::shared_ptr<Condition>> found;
    for (const auto& condition : graph.conditions)
        if (condition->assigned) found.push_back(condition);
    for_each_body(graph, [&found](const Graph& body) {
        for (auto& condition : assigned_conditions(body)) found.push_back(std::move(condition));
    });
    return found;
}

CUresult run_conditional(const ConditionalWork& work) {
    const RaceInBody in_body;
    const std::atomic<unsigned>& value = work.condition->value;
    if (work.type == CU_GRAPH_COND_TYPE_WHILE) {
        CUresult code = CUDA_SUCCESS;
        while (code == CUDA_SUCCESS && value != 0) code = run_image(*work.images[0]);
        return code;
    }
    const unsigned given = value;
    const unsigned place = work.type == CU_GRAPH_COND_TYPE_SWITCH ? given : (given != 0 ? 0 : 1);
    return place < work.images.size() ? run_image(*work.images[place]) : CUDA_SUCCESS;
}

}  // namespace lowgraph

// cudaGraphSetConditional of device code (include/cuda_on_host/conditional.h).
void lowgraph_set_conditional(uint64_t handle, unsigned value, const char* file, int line) {
    const std::shared_ptr<lowgraph::Condition> condition = lowgraph::find_condition(handle);
    if (condition == nullptr)
        lowgraph_trap(719, "cudaGraphSetConditional of a handle that does not exist", file, line);
    condition->value = value;
}
