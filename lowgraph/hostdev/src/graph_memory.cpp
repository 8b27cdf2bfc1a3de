#include "graph_memory.h"

#include <algorithm>

#include "memory.h"

namespace lowgraph {
namespace {

// Its own lock: the last owner may be a launch that an executor thread lets go of.
struct Table {
    std::mutex lock;
    std::unordered_map<uint64_t, std::weak_ptr<GraphMemory>> by_address;
};

Table& table() {
    static Table* const instance = new Table;  // leaked: destructors run during teardown too
    return *instance;
}

}  // namespace

GraphMemory::GraphMemory(uint64_t start, size_t size, uint64_t graph) : address(start), bytes(size), home(graph) {}

GraphMemory::~GraphMemory() {
    {
        const std::lock_guard<std::mutex> hold(table().lock);
        table().by_address.erase(address);
    }
    // What the user has not freed yet outlives the graph: a plain cuMemFree ends it.
    if (!live) abandon(address);
}

std::shared_ptr<GraphMemory> own_graph_memory(uint64_t address, size_t bytes, uint64_t home) {
    auto memory = std::make_shared<GraphMemory>(address, bytes, home);
    const std::lock_guard<std::mutex> hold(table().lock);
    table().by_address[address] = memory;
    return memory;
}

std::shared_ptr<GraphMemory> find_graph_memory(uint64_t address) {
    const std::lock_guard<std::mutex> hold(table().lock);
    const auto found = table().by_address.find(address);
    return found == table().by_address.end() ? nullptr : found->second.lock();
}

void note_free_node(uint64_t address, uint64_t graph_uid) {
    if (const std::shared_ptr<GraphMemory> memory = find_graph_memory(address))
        memory->freed_in.push_back(graph_uid);
}

bool may_free_in(uint64_t graph_uid, uint64_t address) {
    const std::shared_ptr<GraphMemory> memory = find_graph_memory(address);
    if (!memory) return false;
    if (memory->home == graph_uid) return !memory->instantiated && memory->freed_in.empty();
    return std::none_of(memory->freed_in.begin(), memory->freed_in.end(),
                        [&](uint64_t uid) { return uid == graph_uid || uid == memory->home; });
}

bool free_graph_memory(uint64_t address) {
    const std::shared_ptr<GraphMemory> memory = find_graph_memory(address);
    if (!memory || !memory->live) return false;
    memory->live = false;
    return true;
}

}  // namespace lowgraph
