// Who watches captures is told what happens to them: by name, with the call that did it.
// All but `tell_watcher` need big_lock. With nobody watching, each costs one look at a flag.
#pragma once
#include "counters.h"
#include "model.h"

namespace lowgraph {

namespace telling {
inline bool on = false;
inline bool waiting = false;  // something is to be told once the present call lets go of big_lock
inline const Counter* calling = nullptr;  // the entry point that has big_lock
}  // namespace telling

void tell_begun(const Capture&);
void tell_ended(Capture&, CUresult code);  // before its graph is handed out or lost
// The call is refused on account of the capture, or with it.
void tell_refused(const Capture&, CUresult code);
void tell_broken(const Capture&, CUresult code);
// `work` runs on a stream that is in no capture, while captures are open.
void tell_elsewhere(const Stream&, const Work& work);
// A call that a capture of another mode would have refused.
void tell_let_through(const Capture&);

// What this call has to tell: to the watcher, in the thread that made the call, with no lock held,
// so that it may look at the caller's own frames.
void tell_watcher(std::unique_lock<std::mutex>& big);

}  // namespace lowgraph
