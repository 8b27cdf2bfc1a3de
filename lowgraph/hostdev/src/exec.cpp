#include "exec.h"

#include <algorithm>
#include <unordered_set>

#include "check.h"
#include "conditional.h"
#include "module.h"
#include "shuffle.h"
#include "stream.h"
#include "words.h"

namespace lowgraph {
namespace {

using Execs = std::unordered_map<Exec*, std::unique_ptr<Exec>>;

Execs& execs() {
    static Execs* const instance = new Execs;
    return *instance;
}

bool is_live(const Event* event) { return find_event(reinterpret_cast<CUevent>(const_cast<Event*>(event))); }

// A node whose kernel's module or whose event is gone cannot be instantiated.
bool can_run(const Work& work) {
    if (const auto* kernel = std::get_if<KernelWork>(&work)) return kernel->function->module;
    if (const auto* record = std::get_if<RecordWork>(&work)) return is_live(record->event);
    if (const auto* wait = std::get_if<WaitWork>(&work)) return is_live(wait->event);
    return true;
}

const Node* find_in_cycle(const Graph& graph) {
    const std::vector<const Node*> order = topological_order(graph);
    if (order.size() == graph.nodes.size()) return nullptr;
    const std::unordered_set<const Node*> ordered(order.begin(), order.end());
    for (const Node& node : graph.nodes)
        if (!ordered.count(&node)) return &node;
    return nullptr;
}

Obstacle cannot_run(const Node* node) { return {node, CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED}; }

// What may be in a body is illegal there for its context, or pageable memory, which has the same result.
Obstacle illegal_in_body(const Node* node) {
    const CUgraphNodeType type = type_of(node->work);
    const bool may_be = type == CU_GRAPH_NODE_TYPE_KERNEL || type == CU_GRAPH_NODE_TYPE_MEMSET ||
                        type == CU_GRAPH_NODE_TYPE_MEMCPY;
    return may_be ? Obstacle{node, CUDA_GRAPH_INSTANTIATE_MULTIPLE_CTXS_NOT_SUPPORTED} : cannot_run(node);
}

Obstacle find_obstacle(const Graph& graph) {
    if (const Node* node = find_in_cycle(graph)) return {node, CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE};
    for (const Node& node : graph.nodes) {
        if (!can_run(node.work)) return cannot_run(&node);
        if (const auto* child = std::get_if<ChildWork>(&node.work)) {
            if (has_conditional_nodes(*child->graph)) return cannot_run(&node);
            if (const Obstacle inner = find_obstacle(*child->graph); inner.node) return inner;
        }
        if (const auto* conditional = std::get_if<ConditionalWork>(&node.work)) {
            if (const Node* illegal = find_illegal(*conditional)) return illegal_in_body(illegal);
            for (const auto& body : conditional->bodies->graphs)
                if (const Obstacle inner = find_obstacle(*body); inner.node) return inner;
        }
    }
    return {};
}

bool is_instantiated(const Graph& graph) {
    return std::any_of(execs().begin(), execs().end(),
                       [&graph](const auto& entry) { return entry.second->source_uid == graph.uid; });
}

template <typename Visit>
void for_each_node(const ExecImage& image, Visit visit) {
    for (const std::shared_ptr<const ExecNode>& node : image.nodes) {
        visit(*node);
        if (node->child) for_each_node(*node->child, visit);
    }
}

// Frees what earlier launches left allocated (AUTO_FREE_ON_LAUNCH), or says that it is in the way.
CUresult settle_allocations(const Exec& exec, Stream& stream) {
    std::vector<std::shared_ptr<GraphMemory>> left;
    for_each_node(*exec.image, [&left](const ExecNode& node) {
        if (node.memory && node.memory->live) left.push_back(node.memory);
    });
    if (left.empty()) return CUDA_SUCCESS;
    if (!(exec.flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH)) return CUDA_ERROR_INVALID_VALUE;
    for (const std::shared_ptr<GraphMemory>& memory : left) {
        memory->live = false;
        enqueue_after(stream, FreeWork{memory->address}, exec.last);
    }
    return CUDA_SUCCESS;
}

// A free node of memory that no launch so far has allocated, this one neither, ends the launch.
bool frees_what_is_not_there(const ExecImage& image) {
    std::unordered_set<const GraphMemory*> own;
    bool stray = false;
    for_each_node(image, [&](const ExecNode& node) {
        if (node.memory) own.insert(node.memory.get());
        const auto* const free = std::get_if<FreeWork>(&node.work);
        if (free == nullptr) return;
        const std::shared_ptr<GraphMemory> memory = find_graph_memory(free->address);
        stray |= !memory || (!memory->live && !own.count(memory.get()));
    });
    return stray;
}

// A memory operation of what is no memory ends the launch too.
bool has_stray_words(const ExecImage& image) {
    bool stray = false;
    for_each_node(image, [&stray](const ExecNode& node) {
        const auto* const words = std::get_if<WordsWork>(&node.work);
        stray |= words != nullptr && check_words(*words) != CUDA_SUCCESS;
    });
    return stray;
}

// What a launch that was queued means for events and for memory, as later calls see it.
void note_effects(const ExecImage& image, const Ticket& ticket) {
    for_each_node(image, [&ticket](const ExecNode& node) {
        if (node.memory) node.memory->live = true;
        if (const auto* free = std::get_if<FreeWork>(&node.work)) free_graph_memory(free->address);
        const auto* const record = std::get_if<RecordWork>(&node.work);
        if (!record || !node.enabled || !is_live(record->event)) return;
        record->event->recorded = ticket;
        record->event->capture.reset();
        record->event->captured_tail = {};
    });
}

// Event wait nodes hold up the whole launch: what they wait for was recorded before it.
void queue_waits(const ExecImage& image, Stream& stream) {
    for_each_node(image, [&stream](const ExecNode& node) {
        const auto* const wait = std::get_if<WaitWork>(&node.work);
        if (wait && node.enabled && is_live(wait->event) && wait->event->recorded)
            enqueue_after(stream, EmptyWork{}, wait->event->recorded);
    });
}

}  // namespace

std::shared_ptr<ExecImage> make_image(const Graph& graph, bool by_priority) {
    auto image = std::make_shared<ExecImage>();
    image->by_priority = by_priority;
    image->user_objects = graph.user_objects;
    std::unordered_map<const Node*, uint32_t> places;
    for (const Node* node : topological_order(graph)) {
        ExecNode made;
        made.work = node->work;
        made.id = node->id;
        made.exit_since = node->exit_since;
        made.enabled = node->enabled;
        made.memory = node->memory;
        for (const Node* before : node->before) made.before.push_back(places.at(before));
        for (const auto& [before, data] : node->data) made.data[places.at(before)] = data;
        if (auto* child = std::get_if<ChildWork>(&made.work)) {
            made.child = make_image(*child->graph, by_priority);
            child->graph.reset();  // the node's, and one copy of the graph it was made of
        }
        image->holds_words |= std::holds_alternative<WordsWork>(made.work);
        image->holds_words |= made.child && made.child->holds_words;
        if (auto* conditional = std::get_if<ConditionalWork>(&made.work)) images_for_bodies(*conditional, by_priority);
        places.emplace(node, static_cast<uint32_t>(image->nodes.size()));
        image->nodes.push_back(std::make_shared<ExecNode>(std::move(made)));
    }
    return image;
}

Exec* find_exec(CUgraphExec handle) {
    const auto found = execs().find(reinterpret_cast<Exec*>(handle));
    return found == execs().end() ? nullptr : found->first;
}

// An executable that was made before the graph had memory nodes is in nobody's way.
bool is_memory_taken(const Graph& graph, const Exec* by_another) {
    if (!has_memory_nodes(graph)) return false;
    return std::any_of(execs().begin(), execs().end(), [&](const auto& entry) {
        const Exec* const exec = entry.second.get();
        return exec != by_another && exec->memory_uid == graph.uid && exec->holds_memory;
    });
}

CUresult instantiate(const Graph& graph, uint64_t flags, Exec** exec, Obstacle* obstacle) {
    if (!graph.inside.empty()) return CUDA_ERROR_NOT_SUPPORTED;
    if (has_lost_body(graph)) return lost_body_error();
    if (is_memory_taken(graph, nullptr)) return CUDA_ERROR_NOT_SUPPORTED;  // of a cycle too
    *obstacle = find_obstacle(graph);
    if (obstacle->node) return CUDA_ERROR_INVALID_VALUE;
    if (mixes_contexts(graph)) return CUDA_ERROR_INVALID_VALUE;
    if (has_unused_condition(graph)) {
        obstacle->result = CUDA_GRAPH_INSTANTIATE_CONDITIONAL_HANDLE_UNUSED;
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (has_conditional_nodes(graph) && (is_instantiated(graph) || is_cloned(graph)))
        return CUDA_ERROR_NOT_SUPPORTED;
    auto made = std::make_unique<Exec>();
    made->flags = flags;
    made->source_uid = made->memory_uid = graph.uid;
    made->holds_memory = has_memory_nodes(graph);
    for (const Node& node : graph.nodes)
        if (node.memory) node.memory->instantiated = true;
    made->image = make_image(graph, flags & CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY);
    made->image->assigned = assigned_conditions(graph);
    add_places(graph, {}, *made);
    *exec = made.get();
    execs().emplace(*exec, std::move(made));
    return CUDA_SUCCESS;
}

void destroy_exec(Exec& exec) { execs().erase(&exec); }
void destroy_execs() { execs().clear(); }

CUresult launch(Exec& exec, Stream& stream, Ticket* ticket) {
    if (const CUresult code = settle_allocations(exec, stream); code != CUDA_SUCCESS) return code;
    if (exec.holds_memory && frees_what_is_not_there(*exec.image)) return CUDA_ERROR_INVALID_VALUE;
    if (exec.image->holds_words && has_stray_words(*exec.image)) return CUDA_ERROR_INVALID_VALUE;
    queue_waits(*exec.image, stream);
    exec.last = enqueue_after(stream, ImageWork{exec.image}, exec.last);
    note_effects(*exec.image, exec.last);
    *ticket = exec.last;
    return CUDA_SUCCESS;
}

CUresult run_node(const ExecNode& node) {
    // Waits were queued before the launch; a disabled node only keeps its place in the order.
    if (!node.enabled || std::holds_alternative<WaitWork>(node.work)) return CUDA_SUCCESS;
    return node.child ? run_image(*node.child) : run_work(node.work);
}

CUresult run_image(const ExecImage& image) {
    // The checker follows the nodes in the order of the image.
    if (shuffling() || (image.holds_words && !checking())) return run_walk(image);
    for (size_t place = 0; place < image.nodes.size(); ++place) {
        const ExecNode& node = *image.nodes[place];
        if (checking()) race_next_node();
        const auto* const words = node.enabled ? std::get_if<WordsWork>(&node.work) : nullptr;
        const CUresult code = words != nullptr ? run_words(*words, &image, place) : run_node(node);
        if (code != CUDA_SUCCESS) return code;
    }
    return CUDA_SUCCESS;
}

}  // namespace lowgraph
