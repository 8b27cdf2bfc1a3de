// Events of captures on their way to the watcher.
#include "capture_watch.h"

#include <map>
#include <utility>

#include "capture_state.h"
#include "control.h"
#include "module.h"

namespace lowgraph {
namespace {

struct Told {
    const char* kind;
    std::string what;
    uint64_t capture;
    uint64_t stream;
    CUresult code;
    bool own;
    const Counter* call;
};

struct Watcher {
    lowgraph_capture_listener listener = nullptr;
    std::vector<Told> events;
};

Watcher& watcher() {
    static auto* const instance = new Watcher;
    return *instance;
}

uint64_t handle_of_stream(const Stream* stream) {
    if (stream == nullptr) return 0;
    if (stream->is_legacy) return reinterpret_cast<uint64_t>(CU_STREAM_LEGACY);
    if (stream->is_per_thread) return reinterpret_cast<uint64_t>(CU_STREAM_PER_THREAD);
    return reinterpret_cast<uint64_t>(stream);
}

void add(const char* kind, const Capture& capture, const Stream* stream, CUresult code,
         std::string what = "") {
    const bool own = capture.owner == std::this_thread::get_id();
    if (!watcher().events.empty()) {  // a call may look at the rules twice; it is told once
        const Told& last = watcher().events.back();
        if (last.kind == kind && last.capture == capture.id && last.code == code) return;
    }
    watcher().events.push_back({kind, std::move(what), capture.id, handle_of_stream(stream), code, own,
                                telling::calling});
    telling::waiting = true;
}

const char* mode_name(CUstreamCaptureMode mode) {
    switch (mode) {
        case CU_STREAM_CAPTURE_MODE_GLOBAL: return "global";
        case CU_STREAM_CAPTURE_MODE_THREAD_LOCAL: return "thread_local";
        default: return "relaxed";
    }
}

// In the order of Work's alternatives.
constexpr const char* kinds[] = {"empty",      "kernel",    "memcpy",   "memset", "host",        "event_record",
                                 "event_wait", "mem_alloc", "mem_free", "graph",  "conditional", "graph"};
static_assert(std::size(kinds) == std::variant_size_v<Work>);

// "kernel NAME", or the kind alone.
std::string title(const Work& work) {
    const std::string kind = kinds[work.index()];
    const auto* const kernel = std::get_if<KernelWork>(&work);
    return kernel != nullptr && kernel->function != nullptr ? kind + " " + kernel->function->name : kind;
}

// One line a kind and kernel: "COUNT kernel NAME".
std::string contents(const Graph& graph) {
    std::map<std::string, size_t> counted;
    for (const Node& node : graph.nodes) ++counted[title(node.work)];
    std::string text;
    for (const auto& [name, count] : counted) text += std::to_string(count) + " " + name + "\n";
    return text;
}

}  // namespace

void tell_begun(const Capture& capture) {
    if (telling::on) add("begun", capture, capture.origin, CUDA_SUCCESS, mode_name(capture.mode));
}

void tell_ended(Capture& capture, CUresult code) {
    if (telling::on) add("ended", capture, capture.origin, code, contents(graph_of(capture)));
}

void tell_refused(const Capture& capture, CUresult code) {
    if (telling::on) add("refused", capture, capture.origin, code);
}

void tell_broken(const Capture& capture, CUresult code) {
    if (telling::on) add("broken", capture, capture.origin, code);
}

void tell_elsewhere(const Stream& stream, const Work& work) {
    if (!telling::on) return;
    for (const std::shared_ptr<Capture>& capture : live_captures())
        if (!is_dead(*capture)) add("elsewhere", *capture, &stream, CUDA_SUCCESS, title(work));
}

void tell_let_through(const Capture& capture) {
    if (telling::on) add("let through", capture, capture.origin, CUDA_SUCCESS);
}

void tell_watcher(std::unique_lock<std::mutex>& big) {
    const std::vector<Told> events = std::exchange(watcher().events, {});
    const lowgraph_capture_listener listener = watcher().listener;
    telling::waiting = false;
    big.unlock();
    if (listener == nullptr) return;
    for (const Told& told : events) {
        const lowgraph_capture_event event{told.kind,
                                           told.call != nullptr ? told.call->name.c_str() : "",
                                           told.what.c_str(),
                                           told.capture,
                                           told.stream,
                                           static_cast<int>(told.code),
                                           told.own ? 1 : 0};
        listener(&event);
    }
}

}  // namespace lowgraph

using namespace lowgraph;

void lowgraph_host_watch_captures(lowgraph_capture_listener listener) {
    const std::lock_guard<std::mutex> hold(big_lock);
    watcher().listener = listener;
    watcher().events.clear();
    telling::waiting = false;
    telling::on = listener != nullptr;
}
