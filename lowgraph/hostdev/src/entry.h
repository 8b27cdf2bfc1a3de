// What every entry point opens with: count the call, take `big_lock`, refuse what cannot run.
#pragma once
#include <mutex>

#include "capture_watch.h"
#include "counters.h"
#include "model.h"

// An entry point's linkage: exports.map shows these and hides all else.
#define LOWGRAPH_API extern "C"

// Opens an entry point: `entry` holds big_lock until the function returns.
#define LOWGRAPH_ENTRY(needs)                                                     \
    static ::lowgraph::Counter& entry_counter = ::lowgraph::counter_of(__func__); \
    ::lowgraph::Entry entry(entry_counter, ::lowgraph::Needs::needs);             \
    if (entry.code() != CUDA_SUCCESS) return entry.code()

// The same of a call on a stream.
#define LOWGRAPH_STREAM_ENTRY(stream)                                                  \
    static ::lowgraph::Counter& entry_counter = ::lowgraph::counter_of(__func__);      \
    ::lowgraph::Entry entry(entry_counter, ::lowgraph::needs_of(stream));              \
    if (entry.code() != CUDA_SUCCESS) return entry.code()

namespace lowgraph {

using Lock = std::unique_lock<std::mutex>;

// Locks it. Whoever holds big_lock mostly does so for less time than a sleep costs.
void take(Lock& lock);

enum class Needs {
    nothing,  // error strings, cuInit, the version: always answered
    driver,   // cuInit must have run: 3 NOT_INITIALIZED
    context,  // a live current context (201, 709) without a sticky error (its code)
    handle,   // no sticky error; which context is meant is told by the handle that the call is given
    memory,   // a handle too, but 709 under a destroyed context: frees
    graphs,   // a handle too: what touches graphs in host memory alone outlives a fault
};

// Streams 0, 1 and 2 are those of the current context; any other stream knows its own.
inline Needs needs_of(CUstream stream) {
    return reinterpret_cast<uintptr_t>(stream) <= 2 ? Needs::context : Needs::handle;
}

class Entry {
public:
    Entry(Counter& counter, Needs needs);
    ~Entry() {
        if (lock_.owns_lock() && telling::waiting) tell_watcher(lock_);
    }
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;

    CUresult code() const { return code_; }
    Lock& lock() { return lock_; }  // what waits gives it to queue.h's finish, which lets go of it

private:
    Lock lock_;
    CUresult code_;
};

}  // namespace lowgraph
