// Stream capture: where work offered to a stream goes, and what a call may not do while a stream is
// capturing. Every rule here is a row that a real driver answered (tests/conformance, tests/traces).
// All functions are called under `big_lock`.
#pragma once
#include "model.h"

namespace lowgraph {

// Where work offered to a stream goes: the caller runs it (enqueue), it became a node, or it is refused.
struct Route {
    enum Kind { run, recorded, refused } kind = run;
    CUresult code = CUDA_SUCCESS;  // of a refusal
};

// Launches, asynchronous copies and memsets, host functions, graph launches, asynchronous alloc and free.
// Takes `work` only when the answer is `recorded`.
Route route_work(Stream&, Work&& work);
Route route_record(Stream&, Event&, unsigned flags);
Route route_wait(Stream&, Event&, unsigned flags);
// Of an event that the launch routed last names: a waiter in its capture depends on the kernel by such an edge.
Route route_launch_event(Stream&, Event&, const CUgraphEdgeData& data);

// The answers that come before any other for a call on a stream: 906 on the legacy stream, 901 after
// an invalidation.
CUresult standing_refusal(Stream&);
// A call with bad arguments on `stream`: a capture on it is invalidated; `code` unless an earlier rule answers.
CUresult invalid_call(Stream&, CUresult code);

// A call on `stream` with an object of another context: a capture goes on; 400 unless an earlier rule answers.
CUresult foreign_object(Stream&);

// Calls that could wait for the device or change its memory: cuMemAlloc, cuMemFree, cuGraphInstantiate ...
CUresult guard_unsafe();
CUresult guard_stream_wait(Stream&, bool query);
// Calls on a stream that can be no node (its flags and id, a peer copy): a capture of any mode ends, 900.
CUresult guard_uncapturable(Stream&);
CUresult guard_context_sync(const Context& context);
CUresult guard_event_wait(Event&, bool query);
CUresult guard_elapsed(const Event& start, const Event& end);
// Work on the legacy stream (synchronous copies and memsets too) while a blocking stream of the same
// context captures.
CUresult guard_legacy(const Context& context);

// Before a stream or an event is destroyed.
void forget(Stream&);
void forget(Event&);

// ---- The capture calls themselves (entry_capture.cpp) ----
CUresult begin_capture(Stream&, CUstreamCaptureMode mode);
CUresult begin_capture_to_graph(Stream&, Graph&, const Tail& dependencies, CUstreamCaptureMode mode);
CUresult end_capture(Stream&, Graph** graph);  // *graph: null unless the capture was whole
CUresult capture_status(Stream&, CUstreamCaptureStatus* status);
CUresult update_dependencies(Stream&, const Tail& dependencies, unsigned flags);
CUstreamCaptureMode exchange_thread_mode(CUstreamCaptureMode mode);

}  // namespace lowgraph
