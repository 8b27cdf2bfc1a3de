// The asynchronous executor: every piece of work is an Op in a graph of dependencies (stream order,
// the legacy stream's implicit order, event waits); a few threads run the ops that are ready.
// All functions but run_work need big_lock.
#pragma once
#include <functional>

#include "entry.h"
#include "race_order.h"

namespace lowgraph {

struct Op {
    Work work;
    std::function<CUresult()> action;  // set: run this instead of `work`
    std::vector<std::byte> staging;    // bytes of a pageable source, taken when the copy was issued
    std::vector<Ticket> followers;
    uint64_t number = 0;   // in the order of issue
    unsigned missing = 0;  // unfinished ops that it waits for
    bool done = false;
    bool awaited = false;  // a thread sleeps until it is done
    uint64_t stream = 0;   // the handle of its stream, for messages; 0: of none
    Stamp stamp;  // its place in the order of works, while checking
};

// Queues work behind everything that `stream` must wait for; never blocks.
Ticket enqueue(Stream& stream, Work&& work);
// The same, behind `also` too (an event's record; null: nothing more to wait for).
Ticket enqueue_after(Stream& stream, Work&& work, const Ticket& also);
// The same for an op that carries more than its work (staging).
Ticket enqueue_op(Stream& stream, const Ticket& op, const Ticket& also);
// Runs `action` after everything issued so far and before everything issued later, on any stream.
Ticket enqueue_barrier(std::function<CUresult()> action);

// What an entry point does with work that runs: enqueue, wait if the device is set to blocking;
// returns the context's error, so that in blocking mode a fault is reported by its own call.
CUresult submit(Entry& entry, Stream& stream, Work&& work);
// The way of every piece of work that is offered to a stream: run, recorded by a capture, or
// refused.
CUresult offer(Entry& entry, Stream& stream, Work&& work);
CUresult settle(Entry& entry, const Ticket& ticket);  // submit's second half

bool is_done(const Ticket& ticket);  // true for null
bool host_asks(const Ticket& ticket);  // the same, for a caller that will rely on the answer
bool all_done();
// Wait; big_lock is let go meanwhile. By `await` the host knows nothing: CUDA would not have waited.
void finish(const Ticket& ticket, Lock& lock);
void await(const Ticket& ticket, Lock& lock);
// ... for all that was issued before. Not for what other threads go on issuing: a moment without any
// work may never come.
void finish_issued(Lock& lock);
void finish_issued(const Context& context, Lock& lock);  // ... in that context
// ... until nothing is in flight.
void finish_all(Lock& lock);

// The calling executor thread is about to wait for others, and another one takes its place; it is back.
void leave_executor();
void return_to_executor();
// How often the device's work went on. Meanwhile it does nothing but wait for words if `only_waits`.
uint64_t progress();
bool only_waits();
void note_progress();
// Of the op that the calling executor thread carries out: the handle of its stream, 0 for none.
uint64_t running_stream();

enum class Waited { there, broke, overdue };
// For work that waits for the host or for another stream: looks until `there` says so, with another
// thread in the place of the calling executor thread. broke: the context did meanwhile. overdue: for
// kernel_seconds() the device had nothing to do but to wait. `there` is called with big_lock.
Waited wait_for_others(const std::function<bool()>& there);

// Looks at every canary; damage becomes the sticky error. For synchronizing calls, when idle.
void check_memory();

// The executor keeps counting work of a stream that is destroyed in flight.
void detach(Stream& stream);

void set_blocking(bool blocking);

// Carries out one piece of work on the calling thread, WITHOUT big_lock: the executor and
// run_image (for a graph's nodes) call it. A fault becomes the context's sticky error.
CUresult run_work(const Work& work);

double now_ms();  // the device clock that events read: steady, milliseconds

}  // namespace lowgraph
