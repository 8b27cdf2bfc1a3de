// Handles of streams and events: made, found again, destroyed in flight. All need big_lock.
#pragma once
#include "queue.h"

namespace lowgraph {

// The stream behind a handle: 0 and 1 are the current context's legacy stream, 2 the calling thread's
// own default stream there; null: not a live stream (the caller returns 400 INVALID_HANDLE).
Stream* find_stream(CUstream handle);
Event* find_event(CUevent handle);  // null: not a live event

// Set while an entry point's per-thread-default-stream variant runs: 0 then means the thread's own.
bool& null_is_per_thread();

Stream& legacy_stream(Context& context);
// Whether the legacy stream of the context waits for the stream's work, and it for that stream's.
inline bool waits_for_legacy(const Stream& stream, const Context& context) {
    return stream.blocking() && stream.context == &context;
}
const std::vector<Stream*>& live_streams();  // with the legacy and the per-thread streams

// The priority is clamped to the range.
Stream& create_stream(Context& context, unsigned flags, int priority);
void destroy_stream(Stream& stream);                  // its work in flight goes on
Event& create_event(const Context& context, unsigned flags);
void destroy_event(Event& event);

// Context teardown: its handles become invalid. Nothing may be in flight.
void destroy_streams_and_events(Context& context);

}  // namespace lowgraph
