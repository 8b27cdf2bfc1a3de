// The objects of the host device: what a CUstream, CUevent, CUfunction, CUgraph handle points at,
// and Work, the one vocabulary for what a stream executes and what a graph node holds.
// One process-wide lock (`big_lock`) guards all of it except while work runs.
#pragma once
#include <cuda.h>  // CUDA 12.9's: types and enums only; entry points are defined under explicit versioned names

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <variant>
#include <vector>

namespace lowgraph {

struct Context;  // context.h
struct Event;
struct Stream;
struct Graph;
struct Node;
struct Function;
struct ExecImage;
struct GraphMemory;  // graph_memory.h: an alloc node's address
struct Condition;    // conditional.h: the variable that a conditional node looks at
struct ConditionalBodies;  // conditional.h: its body graphs
struct UserObject;   // user_object.h: what a graph keeps alive for its maker
struct Op;  // queue.h: one piece of work in flight
using Ticket = std::shared_ptr<Op>;

extern std::mutex big_lock;

struct Dim3 {
    unsigned x = 1, y = 1, z = 1;
    bool operator==(const Dim3&) const = default;
};

// Launch attributes that change nothing here, kept for whoever asks (attributes.h), by their id.
using Attributes = std::map<CUlaunchAttributeID, CUlaunchAttributeValue>;

// ---- Work ----
struct KernelWork {
    Function* function = nullptr;
    Dim3 grid, block, cluster{0, 0, 0};  // cluster {0,0,0}: no attribute set
    unsigned shared_bytes = 0;
    bool cooperative = false;
    int priority = 0;
    Attributes attributes;  // the others that were set
    bool launched = false;  // not built as a node: its clusters are spread unless it says otherwise
    std::vector<std::byte> args;  // the arguments' bytes, at the function's own offsets
    Context* context = nullptr;  // where a library's kernel runs; null: not known
};
struct CopyWork {
    CUmemorytype dst_kind = CU_MEMORYTYPE_DEVICE, src_kind = CU_MEMORYTYPE_DEVICE;
    uint64_t dst = 0, src = 0;
    size_t width = 0, height = 1, depth = 1;  // bytes, rows, slices
    size_t dst_pitch = 0, src_pitch = 0;
    size_t dst_rows = 0, src_rows = 0;  // rows from one slice to the next; 0: height
    // What the call said of each side; unified: nothing but the address.
    CUmemorytype dst_told = CU_MEMORYTYPE_DEVICE, src_told = CU_MEMORYTYPE_DEVICE;
    const Context* context = nullptr;  // of a node: the call's, or that of the stream which captured it
    bool outlives_call = false;        // a synchronous one that the host does not wait for
};
struct FillWork {
    uint64_t dst = 0;
    uint32_t value = 0;
    unsigned element = 1;  // bytes: 1, 2 or 4
    size_t width = 0, height = 1, pitch = 0;  // width in elements
    const Context* context = nullptr;         // as a copy's
};
struct HostWork {
    CUhostFn fn = nullptr;
    void* user_data = nullptr;
};
struct RecordWork {
    Event* event = nullptr;
};
struct WaitWork {
    Event* event = nullptr;
};
struct AllocWork {
    uint64_t address = 0;
    size_t bytes = 0;
};
struct FreeWork {
    uint64_t address = 0;
};
struct ChildWork {
    std::shared_ptr<Graph> graph;
};
// `images` are the bodies' as an executable runs them; a node under construction has none.
struct ConditionalWork {
    const Context* context = nullptr;
    std::shared_ptr<Condition> condition;
    CUgraphConditionalNodeType type = CU_GRAPH_COND_TYPE_IF;
    std::shared_ptr<ConditionalBodies> bodies;
    std::vector<std::shared_ptr<const ExecImage>> images;
};
// Memory operations, carried out one after another (words.h).
struct WordsWork {
    Context* context = nullptr;
    std::vector<CUstreamBatchMemOpParams> operations;
};
struct EmptyWork {};
// A launched executable graph: an immutable image, so that an update never reaches a launch in flight.
struct ImageWork {
    std::shared_ptr<const ExecImage> image;
};
using Work = std::variant<EmptyWork, KernelWork, CopyWork, FillWork, HostWork, RecordWork, WaitWork, AllocWork,
                          FreeWork, ChildWork, ConditionalWork, WordsWork, ImageWork>;

// ---- Graphs ----
// Of the edges that are not plain ones, by the node before or its place (edge_data.h).
template <typename Before>
using EdgeTable = std::map<Before, CUgraphEdgeData>;
struct Node {
    Graph* graph = nullptr;
    uint64_t id = 0;  // order of creation inside its graph
    Work work;
    std::vector<Node*> before, after;  // edges, in order of creation
    EdgeTable<const Node*> data;       // of those from `before`
    bool enabled = true;
    uint64_t exit_since = 0;  // when it last came to have nothing after it, counted in its graph
    std::shared_ptr<GraphMemory> memory;  // of an alloc node
    std::vector<void*> argument_pointers;  // into a kernel's args: what cuGraphKernelNodeGetParams hands out
};
// Made and found by graph.h, so that a handle of a destroyed graph or node is seen as such.
struct Graph {
    Graph();
    ~Graph();
    Graph(const Graph&) = delete;
    Graph& operator=(const Graph&) = delete;

    std::list<Node> nodes;  // stable addresses: a Node* is the CUgraphNode handle
    uint64_t next_id = 0;
    uint64_t next_exit = 0;    // for Node::exit_since
    uint64_t uid = 0;          // of the process: addresses are used again, uids are not
    uint64_t cloned_from = 0;  // uid of the graph that this is a clone of; its nodes kept their ids
    bool holds_memory = false;  // a memory node was added, or a free was refused: for good
    bool lost = false;          // of a body: a capture into it failed
    std::vector<std::shared_ptr<UserObject>> user_objects;  // one entry a reference
    std::vector<std::shared_ptr<Condition>> conditions;     // made for it, with a node or not yet
    std::vector<uint64_t> inside;  // of a conditional node's body: uids of the graphs around it, outermost first
};

// ---- Capture state carried by streams and events (capture_rules.cpp owns its meaning) ----
// The nodes that the next captured node will depend on, and by what edges.
struct Tail {
    std::vector<Node*> nodes;
    EdgeTable<const Node*> data;
};
struct Capture {
    uint64_t id = 0;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
    std::thread::id owner;  // the thread that began it
    Stream* origin = nullptr;
    bool invalidated = false;
    bool over = false;  // ended, or its origin destroyed; events that were recorded in it keep it
    std::unique_ptr<Graph> graph;
    Graph* into = nullptr;   // cuStreamBeginCaptureToGraph: the caller's graph, instead of `graph`
    std::vector<Node*> recorded;   // by calls on its streams; nodes added by hand need no joining
    std::vector<Node*> let_go;     // ends that cuStreamUpdateCaptureDependencies took off their stream
    std::vector<Stream*> members;  // origin first, then streams that joined by an event wait
};
struct Stream {
    Context* context = nullptr;
    unsigned flags = 0;  // CU_STREAM_NON_BLOCKING or 0
    int priority = 0;
    Attributes attributes;  // the others that were set
    uint64_t id = 0;
    Ticket last;                        // the newest work queued on it
    std::shared_ptr<Capture> capture;   // null: not capturing
    Tail tail;
    bool is_legacy = false, is_per_thread = false;
    bool blocking() const { return !(flags & CU_STREAM_NON_BLOCKING) && !is_legacy; }
};
struct Event {
    const Context* context = nullptr;
    unsigned flags = 0;
    Ticket recorded;                    // the last record outside a capture; null: never recorded
    double time_ms = 0;                 // when that record was reached
    std::shared_ptr<Capture> capture;   // the last record was in this capture (also after its end)
    Tail captured_tail;                 // what a waiter in that capture will depend on
    bool capture_ended = false;
};

}  // namespace lowgraph
