// Events of captures on their way to the watcher.
#include "capture_watch.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <map>
#include <thread>
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
    std::thread::id teller;
};

struct Watcher {
    lowgraph_capture_listener listener = nullptr;
    std::vector<Told> events;  // of calls that have not ended
    uint64_t turns = 0;        // given to calls that tell
};

Watcher& watcher() {
    static auto* const instance = new Watcher;
    return *instance;
}

// Who tells, in the order in which it happened: the end of a capture must not be told before what
// another thread did to it.
struct Turns {
    std::mutex lock;
    std::condition_variable next;
    uint64_t over = 0;
};

Turns& turns() {
    static auto* const instance = new Turns;
    return *instance;
}

class Turn {
public:
    // Not for ever: a caller that holds what the listener before it needs would wait for itself.
    explicit Turn(uint64_t number) : number_(number) {
        std::unique_lock<std::mutex> hold(turns().lock);
        turns().next.wait_for(hold, std::chrono::seconds(5), [&] { return turns().over >= number_; });
    }
    ~Turn() {
        {
            const std::lock_guard<std::mutex> hold(turns().lock);
            turns().over = std::max(turns().over, number_ + 1);
        }
        turns().next.notify_all();
    }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

private:
    const uint64_t number_;
};

void tell(lowgraph_capture_listener listener, const std::vector<Told>& events) {
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

// The events of the calling thread's call, taken out: one that waits lets go of big_lock before it
// tells, and they are told by nobody else.
std::vector<Told> take_own() {
    const auto is_other = [self = std::this_thread::get_id()](const Told& told) {
        return told.teller != self;
    };
    std::vector<Told>& all = watcher().events;
    const auto own = std::stable_partition(all.begin(), all.end(), is_other);
    std::vector<Told> taken(std::make_move_iterator(own), std::make_move_iterator(all.end()));
    all.erase(own, all.end());
    telling::waiting = !all.empty();
    return taken;
}

uint64_t handle_of_stream(const Stream* stream) {
    if (stream == nullptr) return 0;
    if (stream->is_legacy) return reinterpret_cast<uint64_t>(CU_STREAM_LEGACY);
    if (stream->is_per_thread) return reinterpret_cast<uint64_t>(CU_STREAM_PER_THREAD);
    return reinterpret_cast<uint64_t>(stream);
}

void add(const char* kind, const Capture& capture, const Stream* stream, CUresult code,
         std::string what = "") {
    const std::thread::id self = std::this_thread::get_id();
    for (const Told& told : watcher().events) {  // a call may look at the rules twice; it is told once
        const bool again = told.kind == kind && told.capture == capture.id && told.code == code;
        if (again && told.teller == self) return;
    }
    watcher().events.push_back({kind, std::move(what), capture.id, handle_of_stream(stream), code,
                                capture.owner == self, telling::calling, self});
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
                                 "event_wait", "mem_alloc", "mem_free", "graph",  "conditional", "mem_ops", "graph"};
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
    static thread_local bool tells = false;
    const std::vector<Told> events = take_own();
    const lowgraph_capture_listener listener = watcher().listener;
    if (events.empty() || listener == nullptr) return;
    if (tells) {  // a call of the listener's own: it is this thread's turn
        big.unlock();
        tell(listener, events);
        return;
    }
    const uint64_t number = watcher().turns++;
    big.unlock();
    const Turn turn(number);
    tells = true;
    tell(listener, events);
    tells = false;
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
