// Executable graphs: an immutable image of the nodes in running order, replaced as a whole when a
// node is changed or the graph is updated, so that launches in flight keep what they were issued with.
#pragma once
#include "graph.h"
#include "graph_memory.h"
#include "queue.h"
#include "race_order.h"

namespace lowgraph {

struct ExecNode {
    Work work;  // a child graph's is in `child`
    std::vector<uint32_t> before;  // places in the image, in the order of the edges
    EdgeTable<uint32_t> data;      // of those edges
    uint64_t id = 0;               // of the node it was made from: the order of creation
    uint64_t exit_since = 0;       // of that node
    bool enabled = true;
    std::shared_ptr<GraphMemory> memory;      // of an alloc node
    std::shared_ptr<const ExecImage> child;
};
struct ExecImage {
    std::vector<std::shared_ptr<const ExecNode>> nodes;  // each after those in its `before`
    std::vector<std::shared_ptr<UserObject>> user_objects;
    bool holds_words = false;  // memory operations, here or in a child graph
    bool by_priority = false;  // USE_NODE_PRIORITY: kernels keep theirs
    std::vector<std::shared_ptr<Condition>> assigned;  // what each launch sets to its default
    // While checking: set by its first launch. Images made from this one have the same edges.
    mutable std::shared_ptr<const NodeOrder> order;
};

// Where a node is: its place in the image, then in the child graph's image that stands there ...; behind a
// conditional node's place comes the number of the body.
struct ExecPlace {
    uint64_t graph_uid = 0, node_id = 0;  // tell a node from a later one at its address
    std::vector<uint32_t> path;
};

// A CUgraphExec.
struct Exec {
    uint64_t flags = 0;
    uint64_t source_uid = 0;  // of the graph it was made from
    bool holds_memory = false;  // that graph had memory nodes then
    uint64_t memory_uid = 0;    // of the graph whose memory nodes it has: an update changes it
    std::shared_ptr<ExecImage> image;  // changed in place only while no launch has it
    std::unordered_map<const Node*, ExecPlace> places;  // of the source graph's nodes
    Ticket last;  // its newest launch: launches of one executable run one after another
};

// What stands in the way of an instantiation.
struct Obstacle {
    const Node* node = nullptr;
    CUgraphInstantiateResult result = CUDA_GRAPH_INSTANTIATE_ERROR;
};

Exec* find_exec(CUgraphExec handle);  // null: not a live executable
// INVALID_VALUE with the obstacle's node set when that cannot run, without one for a condition that no
// node looks at, or conditionals of two contexts in each other; NOT_SUPPORTED for a body, for a second
// executable of a graph with memory or conditional nodes while the first is there, and for one of a graph
// with conditional nodes while a clone is there.
CUresult instantiate(const Graph& graph, uint64_t flags, Exec** exec, Obstacle* obstacle);
// Whether memory of the graph's allocation nodes is an executable's, of another one than the given.
bool is_memory_taken(const Graph& graph, const Exec* by_another);
void destroy_exec(Exec& exec);  // launches in flight finish with their image
void destroy_execs();           // context teardown

// Queues one launch; INVALID_VALUE while memory that an earlier one allocated is not freed.
CUresult launch(Exec& exec, Stream& stream, Ticket* ticket);
// A graph launch reached: its nodes, one by one, through run_work. Runs without big_lock.
CUresult run_image(const ExecImage& image);
CUresult run_node(const ExecNode& node);
// run_image in shuffle mode, and for a graph with memory operations.
CUresult run_walk(const ExecImage& image);

// ---- One node of the next launches ----
// Notes the places of the nodes of `graph`, of its child graphs and of its bodies; `above`: where it is.
void add_places(const Graph& graph, const std::vector<uint32_t>& above, Exec& exec);
const ExecNode* find_exec_node(const Exec& exec, const Node& node);  // null: not from its graph
void replace_exec_node(Exec& exec, const Node& node, ExecNode&& changed);

std::shared_ptr<ExecImage> make_image(const Graph& graph, bool by_priority);

}  // namespace lowgraph
