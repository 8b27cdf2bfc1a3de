#include "stream.h"

#include <algorithm>

#include "capture.h"
#include "device.h"

namespace lowgraph {
namespace {

struct Table {
    std::unordered_map<const Stream*, std::unique_ptr<Stream>> streams;
    std::unordered_map<const Event*, std::unique_ptr<Event>> events;
    std::vector<Stream*> in_order;  // oldest first: executors meet the streams in one fixed order
    uint64_t next_id = 1;
    Stream* legacy = nullptr;
};

Table& table() {
    static Table* const instance = new Table;
    return *instance;
}

Stream& add_stream() {
    auto stream = std::make_unique<Stream>();
    stream->id = table().next_id++;
    Stream* made = stream.get();
    table().streams[made] = std::move(stream);
    table().in_order.push_back(made);
    return *made;
}

bool is_live(const Stream* stream) { return table().streams.count(stream) != 0; }

// Each thread's own default stream: blocking, made on first use, remade after a context teardown.
Stream& per_thread_stream() {
    thread_local Stream* mine = nullptr;
    thread_local uint64_t mine_id = 0;
    if (mine == nullptr || !is_live(mine) || mine->id != mine_id) {
        mine = &add_stream();
        mine->is_per_thread = true;
        mine_id = mine->id;
    }
    return *mine;
}

}  // namespace

bool& null_is_per_thread() {
    thread_local bool set = false;
    return set;
}

Stream& legacy_stream() {
    Table& all = table();
    if (all.legacy == nullptr) {
        all.legacy = &add_stream();
        all.legacy->is_legacy = true;
    }
    return *all.legacy;
}

Stream* find_stream(CUstream handle) {
    if (handle == CU_STREAM_LEGACY) return &legacy_stream();
    if (handle == CU_STREAM_PER_THREAD) return &per_thread_stream();
    if (handle == nullptr) return null_is_per_thread() ? &per_thread_stream() : &legacy_stream();
    auto* stream = reinterpret_cast<Stream*>(handle);
    return is_live(stream) ? stream : nullptr;
}

Event* find_event(CUevent handle) {
    const auto spot = table().events.find(reinterpret_cast<const Event*>(handle));
    return spot == table().events.end() ? nullptr : spot->second.get();
}

const std::vector<Stream*>& live_streams() { return table().in_order; }

Stream& create_stream(unsigned flags, int priority) {
    Stream& stream = add_stream();
    stream.flags = flags;
    stream.priority = std::clamp(priority, greatest_priority, least_priority);
    return stream;
}

void destroy_stream(Stream& stream) {
    forget(stream);
    detach(stream);
    std::erase(table().in_order, &stream);
    table().streams.erase(&stream);
}

Event& create_event(unsigned flags) {
    auto event = std::make_unique<Event>();
    event->flags = flags;
    Event* made = event.get();
    table().events[made] = std::move(event);
    return *made;
}

void destroy_event(Event& event) {
    forget(event);
    table().events.erase(&event);
}

void destroy_streams_and_events() {
    Table& all = table();
    while (!all.in_order.empty()) destroy_stream(*all.in_order.back());
    while (!all.events.empty()) destroy_event(*all.events.begin()->second);
    all.legacy = nullptr;
}

}  // namespace lowgraph
