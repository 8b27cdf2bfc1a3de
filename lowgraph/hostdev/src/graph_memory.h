// Memory that graphs allocate: an alloc node owns its address from the capture on; the memory behind
// it appears when a launch reaches the node and goes with a free (in a graph or by the user).
#pragma once
#include "model.h"

namespace lowgraph {

// Shared by the node, its clones in executables and launches in flight; the last one gives the address back.
struct GraphMemory {
    GraphMemory(uint64_t address, size_t bytes, uint64_t home);
    ~GraphMemory();
    GraphMemory(const GraphMemory&) = delete;
    GraphMemory& operator=(const GraphMemory&) = delete;

    const uint64_t address;
    const size_t bytes;
    const uint64_t home;             // uid of the graph of the alloc node
    std::vector<uint64_t> freed_in;  // uids of the graphs that have a free node of it
    bool instantiated = false;       // an executable was made of the alloc node
    bool live = false;  // allocated by the launches issued so far, and not freed by them or the user
};

// Takes over an address that memory.h reserved, for a new alloc node.
std::shared_ptr<GraphMemory> own_graph_memory(uint64_t address, size_t bytes, uint64_t home);
// The graph allocation that starts at `address`; null: not from a graph. Needs big_lock.
std::shared_ptr<GraphMemory> find_graph_memory(uint64_t address);
// A free node of the address was added to the graph of that uid.
void note_free_node(uint64_t address, uint64_t graph_uid);
bool may_free_in(uint64_t graph_uid, uint64_t address);  // graph.h's check_free_node says when
// A free outside graphs: true if `address` is a graph's live allocation, which then counts as freed.
bool free_graph_memory(uint64_t address);

}  // namespace lowgraph
