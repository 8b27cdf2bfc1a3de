// A capture's life, and the way of work and events into it. The codes are recorded rows of a real driver.
#include <algorithm>

#include "capture_state.h"
#include "conditional.h"
#include "edge_data.h"
#include "graph.h"

namespace lowgraph {
namespace {

constexpr Route run_it{Route::run, CUDA_SUCCESS};
constexpr Route recorded_it{Route::recorded, CUDA_SUCCESS};

Route refuse(CUresult code) { return {Route::refused, code}; }

std::vector<std::shared_ptr<Capture>>& captures() {
    static auto* const instance = new std::vector<std::shared_ptr<Capture>>;
    return *instance;
}

uint64_t next_capture_id = 1;

void record_node(Stream& stream, Work&& work) {
    set_context(work, stream.context);
    Node& node = add_node(graph_of(*stream.capture), std::move(work), stream.tail);
    stream.capture->recorded.push_back(&node);
    stream.tail = {{&node}, {}};
}

void leave(Stream& stream) {
    stream.capture.reset();
    stream.tail = {};
}

// A captured graph is about to go: captures into a body of it have nothing left to record into.
void drop_bodies_of(const Graph& graph) {
    for (const std::shared_ptr<Capture>& capture : captures()) {
        if (capture->into == nullptr || !is_inside(*capture->into, graph)) continue;
        invalidate(*capture, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
        capture->into = nullptr;
        capture->graph = std::make_unique<Graph>();
        for (Stream* member : capture->members) member->tail = {};
    }
}

// The graph of a capture that failed goes, also where it was the caller's.
void lose(Capture& capture, const std::unique_ptr<Graph>& captured) {
    if (captured) drop_bodies_of(*captured);
    if (capture.into == nullptr) return;
    drop_bodies_of(*capture.into);
    lose_graph(*capture.into);
}

// Takes the capture out of the world; events keep the object to know that it is over.
std::unique_ptr<Graph> finish(std::shared_ptr<Capture> capture) {
    capture->over = true;
    for (Stream* member : capture->members) leave(*member);
    captures().erase(std::find(captures().begin(), captures().end(), capture));
    return std::move(capture->graph);
}

// Every captured node must lead to what the origin stream does next, or to an end that was let go.
bool is_joined(const Capture& capture) {
    std::vector<Node*> ends = capture.origin->tail.nodes;
    ends.insert(ends.end(), capture.let_go.begin(), capture.let_go.end());
    const auto reached = ancestry(ends);
    return std::all_of(capture.recorded.begin(), capture.recorded.end(),
                       [&reached](const Node* node) { return reached.count(node) != 0; });
}

CUresult begin(Stream& stream, std::shared_ptr<Capture> capture, CUstreamCaptureMode mode) {
    if (stream.is_legacy) {
        const CUresult code = guard_legacy(*stream.context);
        return code != CUDA_SUCCESS ? code : CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    if (stream.capture) {
        tell_refused(*stream.capture, CUDA_ERROR_ILLEGAL_STATE);
        return CUDA_ERROR_ILLEGAL_STATE;
    }
    capture->id = next_capture_id++;
    capture->mode = mode;
    capture->owner = std::this_thread::get_id();
    capture->origin = &stream;
    capture->members = {&stream};
    stream.capture = capture;
    stream.tail = {};
    tell_begun(*capture);
    captures().push_back(std::move(capture));
    return CUDA_SUCCESS;
}

// An event wait pulls a stream that does not capture into the event's capture.
void join(Stream& stream, const Event& event) {
    stream.capture = event.capture;
    stream.tail = event.captured_tail;
    event.capture->members.push_back(&stream);
}

Route wait_for_captured(Stream& stream, Event& event) {
    if (is_dead(*event.capture)) {
        if (stream.capture) invalidate(*stream.capture, CUDA_ERROR_INVALID_VALUE);
        return refuse(CUDA_ERROR_INVALID_VALUE);
    }
    if (stream.is_legacy) {
        invalidate(*event.capture, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
        return refuse(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    }
    if (!stream.capture) {
        join(stream, event);
    } else if (stream.capture == event.capture) {
        join_tail(stream.tail, event.captured_tail);
    } else {
        invalidate(*stream.capture, CUDA_ERROR_STREAM_CAPTURE_MERGE);
        invalidate(*event.capture, CUDA_ERROR_STREAM_CAPTURE_MERGE);
        return refuse(CUDA_ERROR_STREAM_CAPTURE_MERGE);
    }
    return recorded_it;
}

// A free may be recorded for a graph's allocation, not for memory from outside; the capture goes on.
bool may_record(Graph& graph, const Work& work) {
    const auto* const free = std::get_if<FreeWork>(&work);
    return !free || check_free_node(graph, free->address) == CUDA_SUCCESS;
}

}  // namespace

const std::vector<std::shared_ptr<Capture>>& live_captures() { return captures(); }

Route route_work(Stream& stream, Work&& work) {
    if (std::holds_alternative<ImageWork>(work) && stream.capture) {  // told even after an invalidation
        invalidate(*stream.capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        return refuse(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    }
    if (const CUresult code = standing_refusal(stream); code != CUDA_SUCCESS) return refuse(code);
    if (!stream.capture) {
        const bool unsafe = std::holds_alternative<AllocWork>(work) || std::holds_alternative<FreeWork>(work);
        const CUresult code = unsafe ? guard_unsafe() : CUDA_SUCCESS;
        if (code != CUDA_SUCCESS) return refuse(code);
        tell_elsewhere(stream, work);
        return run_it;
    }
    if (!may_record(graph_of(*stream.capture), work)) {
        tell_refused(*stream.capture, CUDA_ERROR_INVALID_VALUE);
        return refuse(CUDA_ERROR_INVALID_VALUE);
    }
    record_node(stream, std::move(work));
    return recorded_it;
}

CUresult invalid_call(Stream& stream, CUresult code) {
    if (const CUresult standing = standing_refusal(stream); standing != CUDA_SUCCESS) return standing;
    if (stream.capture) invalidate(*stream.capture, code);
    return code;
}

CUresult foreign_object(Stream& stream) {
    const CUresult standing = standing_refusal(stream);
    return standing != CUDA_SUCCESS ? standing : CUDA_ERROR_INVALID_HANDLE;
}

Route route_record(Stream& stream, Event& event, unsigned flags) {
    if (const CUresult code = standing_refusal(stream); code != CUDA_SUCCESS) return refuse(code);
    const bool external = flags & CU_EVENT_RECORD_EXTERNAL;
    if (!stream.capture) {
        if (external) return refuse(CUDA_ERROR_ILLEGAL_STATE);
        event.capture.reset();
        event.captured_tail = {};
        return run_it;
    }
    // An external record is a node; what a wait on the event means does not change.
    if (external) {
        record_node(stream, RecordWork{&event});
    } else {
        event.capture = stream.capture;
        event.captured_tail = stream.tail;
    }
    return recorded_it;
}

Route route_wait(Stream& stream, Event& event, unsigned flags) {
    if (const CUresult code = standing_refusal(stream); code != CUDA_SUCCESS) return refuse(code);
    if (flags & CU_EVENT_WAIT_EXTERNAL) {
        const bool over = event.capture && is_dead(*event.capture);
        if (over && stream.capture) invalidate(*stream.capture, CUDA_ERROR_INVALID_VALUE);
        if (over) return refuse(CUDA_ERROR_INVALID_VALUE);
        if (!stream.capture) return refuse(CUDA_ERROR_ILLEGAL_STATE);
        record_node(stream, WaitWork{&event});
        return recorded_it;
    }
    if (event.capture) return wait_for_captured(stream, event);
    if (!stream.capture) return run_it;
    if (!event.recorded) return recorded_it;  // never recorded: nothing to wait for, no edge
    invalidate(*stream.capture, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
    return refuse(CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
}

// The origin's end is the capture's. Without a joined stream it goes on: its nodes stay, and are
// unjoined at the end unless the origin waited for them.
void forget(Stream& stream) {
    const std::shared_ptr<Capture> capture = stream.capture;
    if (!capture) return;
    if (capture->origin == &stream) {
        invalidate(*capture, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
        tell_ended(*capture, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
        lose(*capture, finish(capture));
        return;
    }
    std::erase(capture->members, &stream);
    leave(stream);
}

// Nodes that name the event stay: what runs or instantiates them looks the handle up first.
void forget(Event& event) {
    event.capture.reset();
    event.captured_tail = {};
}

CUresult begin_capture(Stream& stream, CUstreamCaptureMode mode) {
    auto capture = std::make_shared<Capture>();
    capture->graph = std::make_unique<Graph>();
    return begin(stream, std::move(capture), mode);
}

CUresult begin_capture_to_graph(Stream& stream, Graph& graph, const Tail& dependencies, CUstreamCaptureMode mode) {
    for (const std::shared_ptr<Capture>& other : captures())
        if (&graph_of(*other) == &graph) return CUDA_ERROR_ILLEGAL_STATE;
    auto capture = std::make_shared<Capture>();
    capture->into = &graph;
    const CUresult code = begin(stream, std::move(capture), mode);
    if (code == CUDA_SUCCESS) stream.tail = dependencies;
    return code;
}

CUresult end_capture(Stream& stream, Graph** graph) {
    *graph = nullptr;
    if (stream.is_legacy)
        if (const CUresult code = guard_legacy(*stream.context); code != CUDA_SUCCESS) return code;
    const std::shared_ptr<Capture> capture = stream.capture;
    if (!capture) return CUDA_ERROR_ILLEGAL_STATE;
    if (capture->origin != &stream) {
        invalidate(*capture, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
        return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    }
    CUresult code = CUDA_SUCCESS;
    if (capture->invalidated)
        code = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    else if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && capture->owner != std::this_thread::get_id())
        code = CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    else if (!is_joined(*capture))
        code = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    if (has_lost_body(graph_of(*capture))) code = lost_body_error();
    tell_ended(*capture, code);
    std::unique_ptr<Graph> captured = finish(capture);
    if (code == CUDA_SUCCESS) *graph = captured ? adopt_graph(std::move(captured)) : capture->into;
    else lose(*capture, captured);
    return code;
}

}  // namespace lowgraph
