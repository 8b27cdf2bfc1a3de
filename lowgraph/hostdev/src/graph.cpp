#include "graph.h"

#include <algorithm>
#include <queue>

#include "conditional.h"
#include "edge_data.h"
#include "graph_memory.h"

namespace lowgraph {
namespace {

struct Registry {
    std::unordered_set<const Graph*> graphs;  // all: owned, captured into, and nodes' child graphs
    std::unordered_set<const Node*> nodes;
    std::unordered_map<Graph*, std::unique_ptr<Graph>> owned;
    uint64_t next_uid = 1;
};

Registry& registry() {
    static Registry* const instance = new Registry;  // leaked: graphs may outlive static destructors
    return *instance;
}

// Looked up at the end that has fewer edges in practice: forks are wide, joins are not.
bool has_edge(const Node& from, const Node& to) {
    return std::find(to.before.begin(), to.before.end(), &from) != to.before.end();
}

bool is_memory(const Work& work) {
    return std::holds_alternative<AllocWork>(work) || std::holds_alternative<FreeWork>(work);
}

void drop(std::vector<Node*>& list, const Node& node) {
    list.erase(std::find(list.begin(), list.end(), &node));
}

void drop_after(Node& from, const Node& node) {
    drop(from.after, node);
    if (from.after.empty()) from.exit_since = from.graph->next_exit++;
}

}  // namespace

Graph::Graph() : uid(registry().next_uid++) { registry().graphs.insert(this); }

Graph::~Graph() {
    registry().graphs.erase(this);
    for (const Node& node : nodes) registry().nodes.erase(&node);
}

Graph* create_graph() { return adopt_graph(std::make_unique<Graph>()); }

Graph* adopt_graph(std::unique_ptr<Graph> graph) {
    Graph* const handle = graph.get();
    registry().owned.emplace(handle, std::move(graph));
    return handle;
}

Graph* find_graph(CUgraph handle) {
    auto* const graph = reinterpret_cast<Graph*>(handle);
    return registry().graphs.count(graph) ? graph : nullptr;
}

Node* find_node(CUgraphNode handle) {
    auto* const node = reinterpret_cast<Node*>(handle);
    return registry().nodes.count(node) ? node : nullptr;
}

CUresult destroy_graph(Graph& graph) {
    return registry().owned.erase(&graph) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

void lose_graph(Graph& graph) {
    if (registry().owned.erase(&graph)) return;
    for (const Node& node : graph.nodes) registry().nodes.erase(&node);
    graph.nodes.clear();
    graph.lost = true;
}

void destroy_graphs() { registry().owned.clear(); }

Node& add_node(Graph& graph, Work&& work, const Tail& dependencies) {
    Node& node = graph.nodes.emplace_back();
    node.graph = &graph;
    node.id = graph.next_id++;
    node.exit_since = graph.next_exit++;
    node.work = std::move(work);
    if (const auto* alloc = std::get_if<AllocWork>(&node.work))
        node.memory = own_graph_memory(alloc->address, alloc->bytes, graph.uid);
    if (const auto* free = std::get_if<FreeWork>(&node.work)) note_free_node(free->address, graph.uid);
    graph.holds_memory |= is_memory(node.work);
    registry().nodes.insert(&node);
    node.data = dependencies.data;
    for (Node* before : dependencies.nodes)
        if (!has_edge(*before, node)) {
            before->after.push_back(&node);
            node.before.push_back(before);
        }
    return node;
}

void remove_node(Node& node) {
    for (Node* before : node.before) drop_after(*before, node);
    for (Node* after : node.after) {
        drop(after->before, node);
        after->data.erase(&node);
    }
    registry().nodes.erase(&node);
    node.graph->nodes.remove_if([&node](const Node& other) { return &other == &node; });
}

CUresult connect(Node& from, Node& to, const CUgraphEdgeData& data) {
    if (&from == &to || from.graph != to.graph || has_edge(from, to)) return CUDA_ERROR_INVALID_VALUE;
    from.after.push_back(&to);
    to.before.push_back(&from);
    if (!is_plain(data)) to.data[&from] = data;
    return CUDA_SUCCESS;
}

CUresult disconnect(Node& from, Node& to) {
    if (!has_edge(from, to)) return CUDA_ERROR_INVALID_VALUE;
    drop_after(from, to);
    drop(to.before, from);
    to.data.erase(&from);
    return CUDA_SUCCESS;
}

CUgraphNodeType type_of(const Work& work) {
    struct Namer {
        CUgraphNodeType operator()(const EmptyWork&) { return CU_GRAPH_NODE_TYPE_EMPTY; }
        CUgraphNodeType operator()(const KernelWork&) { return CU_GRAPH_NODE_TYPE_KERNEL; }
        CUgraphNodeType operator()(const CopyWork&) { return CU_GRAPH_NODE_TYPE_MEMCPY; }
        CUgraphNodeType operator()(const FillWork&) { return CU_GRAPH_NODE_TYPE_MEMSET; }
        CUgraphNodeType operator()(const HostWork&) { return CU_GRAPH_NODE_TYPE_HOST; }
        CUgraphNodeType operator()(const RecordWork&) { return CU_GRAPH_NODE_TYPE_EVENT_RECORD; }
        CUgraphNodeType operator()(const WaitWork&) { return CU_GRAPH_NODE_TYPE_WAIT_EVENT; }
        CUgraphNodeType operator()(const AllocWork&) { return CU_GRAPH_NODE_TYPE_MEM_ALLOC; }
        CUgraphNodeType operator()(const FreeWork&) { return CU_GRAPH_NODE_TYPE_MEM_FREE; }
        CUgraphNodeType operator()(const ChildWork&) { return CU_GRAPH_NODE_TYPE_GRAPH; }
        CUgraphNodeType operator()(const ConditionalWork&) { return CU_GRAPH_NODE_TYPE_CONDITIONAL; }
        CUgraphNodeType operator()(const WordsWork&) { return CU_GRAPH_NODE_TYPE_BATCH_MEM_OP; }
        // An executable is never a node: a graph launch into a capture is refused.
        CUgraphNodeType operator()(const ImageWork&) { return CU_GRAPH_NODE_TYPE_GRAPH; }
    };
    return std::visit(Namer{}, work);
}

void set_context(Work& work, const Context* context) {
    if (auto* const copy = std::get_if<CopyWork>(&work)) copy->context = context;
    if (auto* const fill = std::get_if<FillWork>(&work)) fill->context = context;
}

std::unique_ptr<Graph> clone_graph(const Graph& original) {
    auto clone = std::make_unique<Graph>();
    clone->cloned_from = original.uid;
    clone->user_objects = original.user_objects;
    std::unordered_map<const Node*, Node*> twins;
    for (const Node& node : original.nodes) {
        Work work = node.work;
        if (auto* child = std::get_if<ChildWork>(&work)) child->graph = clone_graph(*child->graph);
        Node& twin = add_node(*clone, std::move(work), {});
        twin.id = node.id;
        twin.exit_since = node.exit_since;
        twin.enabled = node.enabled;
        twins[&node] = &twin;
    }
    for (const Node& node : original.nodes) {
        for (const Node* before : node.before) twins[&node]->before.push_back(twins[before]);
        for (const auto& [before, data] : node.data) twins[&node]->data[twins[before]] = data;
        for (const Node* after : node.after) twins[&node]->after.push_back(twins[after]);
    }
    clone->next_id = original.next_id;
    clone->next_exit = original.next_exit;
    return clone;
}

Node* find_in_clone(const Node& original, Graph& clone) {
    if (clone.cloned_from != original.graph->uid) return nullptr;
    for (Node& node : clone.nodes)
        if (node.id == original.id) return &node;
    return nullptr;
}

bool is_cloned(const Graph& graph) {
    return std::any_of(registry().graphs.begin(), registry().graphs.end(),
                       [&graph](const Graph* other) { return other->cloned_from == graph.uid; });
}

bool has_memory_nodes(const Graph& graph) {
    return graph.holds_memory || std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const Node& node) {
        const auto* const child = std::get_if<ChildWork>(&node.work);
        return child && has_memory_nodes(*child->graph);
    });
}

CUresult check_free_node(Graph& graph, uint64_t address) {
    if (may_free_in(graph.uid, address)) return CUDA_SUCCESS;
    graph.holds_memory = true;  // as on driver 580.159: it counts as one with memory nodes from now on
    return CUDA_ERROR_INVALID_VALUE;
}

std::unordered_set<const Node*> ancestry(const std::vector<Node*>& nodes) {
    std::unordered_set<const Node*> seen;
    std::vector<const Node*> open(nodes.begin(), nodes.end());
    while (!open.empty()) {
        const Node* const node = open.back();
        open.pop_back();
        if (!seen.insert(node).second) continue;
        open.insert(open.end(), node->before.begin(), node->before.end());
    }
    return seen;
}

std::vector<const Node*> topological_order(const Graph& graph) {
    const auto younger = [](const Node* a, const Node* b) { return a->id > b->id; };
    std::priority_queue<const Node*, std::vector<const Node*>, decltype(younger)> ready(younger);
    std::unordered_map<const Node*, size_t> missing;
    for (const Node& node : graph.nodes) {
        missing[&node] = node.before.size();
        if (node.before.empty()) ready.push(&node);
    }
    std::vector<const Node*> order;
    while (!ready.empty()) {
        const Node* const node = ready.top();
        ready.pop();
        order.push_back(node);
        for (const Node* after : node->after)
            if (--missing[after] == 0) ready.push(after);
    }
    return order;
}

}  // namespace lowgraph
