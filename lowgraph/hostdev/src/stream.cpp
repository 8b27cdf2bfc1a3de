#include "stream.h"

#include <algorithm>

#include "capture.h"
#include "context.h"
#include "device.h"

namespace lowgraph {
namespace {

struct Table {
    std::unordered_map<const Stream*, std::unique_ptr<Stream>> streams;
    std::unordered_map<const Event*, std::unique_ptr<Event>> events;
    std::vector<Stream*> in_order;  // oldest first: executors meet the streams in one fixed order
    uint64_t next_id = 1;
};

Table& table() {
    static Table* const instance = new Table;
    return *instance;
}

Stream& add_stream(Context& context) {
    auto stream = std::make_unique<Stream>();
    stream->context = &context;
    stream->id = table().next_id++;
    Stream* made = stream.get();
    table().streams[made] = std::move(stream);
    table().in_order.push_back(made);
    return *made;
}

bool is_live(const Stream* stream) { return table().streams.count(stream) != 0; }

// Each thread's own default stream in a context: blocking, made on first use, remade after the
// context's teardown. A thread uses one context or two, so they stand in a row.
Stream& per_thread_stream(Context& context) {
    struct Mine {
        const Context* context;
        Stream* stream;
        uint64_t id;
    };
    thread_local std::vector<Mine> all;
    auto spot = std::find_if(all.begin(), all.end(),
                             [&context](const Mine& mine) { return mine.context == &context; });
    if (spot == all.end()) spot = all.insert(all.end(), {&context, nullptr, 0});
    if (spot->stream == nullptr || !is_live(spot->stream) || spot->stream->id != spot->id) {
        spot->stream = &add_stream(context);
        spot->stream->is_per_thread = true;
        spot->id = spot->stream->id;
    }
    return *spot->stream;
}

}  // namespace

bool& null_is_per_thread() {
    thread_local bool set = false;
    return set;
}

Stream& legacy_stream(Context& context) {
    if (context.legacy == nullptr) {
        context.legacy = &add_stream(context);
        context.legacy->is_legacy = true;
    }
    return *context.legacy;
}

Stream* find_stream(CUstream handle) {
    const bool per_thread =
        handle == CU_STREAM_PER_THREAD || (handle == nullptr && null_is_per_thread());
    if (per_thread || handle == nullptr || handle == CU_STREAM_LEGACY) {
        Context* const context = current_context();
        if (context == nullptr || context->destroyed) return nullptr;
        return per_thread ? &per_thread_stream(*context) : &legacy_stream(*context);
    }
    auto* stream = reinterpret_cast<Stream*>(handle);
    return is_live(stream) ? stream : nullptr;
}

Event* find_event(CUevent handle) {
    const auto spot = table().events.find(reinterpret_cast<const Event*>(handle));
    return spot == table().events.end() ? nullptr : spot->second.get();
}

const std::vector<Stream*>& live_streams() { return table().in_order; }

Stream& create_stream(Context& context, unsigned flags, int priority) {
    Stream& stream = add_stream(context);
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

Event& create_event(const Context& context, unsigned flags) {
    auto event = std::make_unique<Event>();
    event->context = &context;
    event->flags = flags;
    Event* made = event.get();
    table().events[made] = std::move(event);
    return *made;
}

void destroy_event(Event& event) {
    forget(event);
    table().events.erase(&event);
}

void destroy_streams_and_events(Context& context) {
    std::vector<Stream*> streams = table().in_order;
    std::erase_if(streams, [&context](const Stream* stream) { return stream->context != &context; });
    while (!streams.empty()) {
        destroy_stream(*streams.back());
        streams.pop_back();
    }
    std::vector<Event*> events;
    for (const auto& [key, event] : table().events)
        if (event->context == &context) events.push_back(event.get());
    for (Event* event : events) destroy_event(*event);
    context.legacy = nullptr;
}

}  // namespace lowgraph
