// Handles of streams and events: made, found again, destroyed in flight. All need big_lock.
#pragma once
#include "queue.h"

namespace lowgraph {

// The stream behind a handle: 0 and 1 are the legacy stream, 2 the calling thread's own default
// stream; null: not a live stream (the caller returns 400 INVALID_HANDLE).
Stream* find_stream(CUstream handle);
Event* find_event(CUevent handle);  // null: not a live event

// Set while an entry point's per-thread-default-stream variant runs: 0 then means the thread's own.
bool& null_is_per_thread();

Stream& legacy_stream();
const std::vector<Stream*>& live_streams();  // with the legacy and the per-thread streams

Stream& create_stream(unsigned flags, int priority);  // the priority is clamped to the range
void destroy_stream(Stream& stream);                  // its work in flight goes on
Event& create_event(unsigned flags);
void destroy_event(Event& event);

// Context teardown: every handle becomes invalid. Nothing may be in flight.
void destroy_streams_and_events();

}  // namespace lowgraph
