// What the capture rules and the capture guards share: the captures that have begun and not ended.
#pragma once
#include "capture.h"
#include "capture_watch.h"
#include "stream.h"

namespace lowgraph {

// Invalidated captures stay in the list until they are ended: they still refuse calls.
const std::vector<std::shared_ptr<Capture>>& live_captures();

inline Graph& graph_of(Capture& capture) { return capture.into ? *capture.into : *capture.graph; }
inline bool is_dead(const Capture& capture) { return capture.over || capture.invalidated; }
// Work on the legacy stream of that context would wait for work that is only recorded.
inline bool holds_up_legacy(const Capture& capture, const Context& context) {
    for (const Stream* member : capture.members)
        if (waits_for_legacy(*member, context)) return true;
    return false;
}
// code: what the call that does it answers.
inline void invalidate(Capture& capture, CUresult code) {
    if (capture.invalidated) tell_refused(capture, code);
    else tell_broken(capture, code);
    capture.invalidated = true;
}

}  // namespace lowgraph
