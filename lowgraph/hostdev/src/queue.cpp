#include "queue.h"

#include <algorithm>

#include "capture.h"
#include "check.h"
#include "context.h"
#include "engine.h"
#include "executors.h"
#include "stream.h"

namespace lowgraph {

// Leaked: the threads still wait in it while the process is torn down.
Queue& queue() {
    static Queue* const instance = new Queue;
    return *instance;
}

namespace {

void make_ready(const Ticket& op) {
    queue().ready.push_back(op);
    queue().any_ready.store(true, std::memory_order_relaxed);
}

// At most so many threads for what is ready. Waking one costs more than a small kernel: the thread
// that completes an op goes on with one of those that it made ready, and whoever looks for work
// finds it unwoken.
void wake_for(size_t count, size_t own) {
    const size_t taken = queue().looking + own, ready = queue().ready.size();
    for (size_t i = taken; i < ready && i < taken + count; ++i) queue().work_ready.notify_one();
}

void wait_for(const Ticket& op, const Ticket& earlier) {
    if (checking() && earlier != nullptr) race_follow(op->stamp, earlier->stamp);
    if (is_done(earlier)) return;
    earlier->followers.push_back(op);
    ++op->missing;
}

}  // namespace

void complete(const Ticket& op) {
    Queue& all = queue();
    // What the work owns goes now, not when its stream's next work replaces it.
    op->work = EmptyWork{};
    op->action = nullptr;
    op->staging = {};
    op->done = true;
    note_progress();
    if (checking()) race_end(op->stamp);
    size_t made_ready = 0;
    for (const Ticket& follower : op->followers) {
        if (--follower->missing != 0) continue;
        make_ready(follower);
        ++made_ready;
    }
    if (made_ready > 1) wake_for(made_ready - 1, 1);
    op->followers.clear();
    --all.in_flight;
    if (op->awaited || (all.in_flight == 0 && all.awaiting_all != 0)) all.work_done.notify_all();
}

namespace {

Ticket add(const Ticket& op) {
    hire();
    wait_for(op, queue().barrier);
    ++queue().in_flight;
    op->number = ++queue().issued;
    if (op->missing != 0) return op;
    make_ready(op);
    wake_for(1, 0);
    return op;
}

void drop_finished_orphans() {
    std::erase_if(queue().orphans, [](const Orphan& orphan) { return is_done(orphan.last); });
}

// Whoever waits for these waits for all that was issued, or for what was in that context.
std::vector<Ticket> newest(const Context* only = nullptr) {
    std::vector<Ticket> last{queue().barrier};
    for (const Stream* stream : live_streams())
        if (only == nullptr || stream->context == only) last.push_back(stream->last);
    drop_finished_orphans();
    for (const Orphan& orphan : queue().orphans)
        if (only == nullptr || orphan.context == only) last.push_back(orphan.last);
    return last;
}

// The legacy stream's implicit order: its work waits for all blocking streams, theirs waits for it.
void wait_for_implicit_order(const Ticket& op, const Stream& stream) {
    if (stream.is_legacy) {
        for (const Stream* other : live_streams())
            if (waits_for_legacy(*other, *stream.context)) wait_for(op, other->last);
        drop_finished_orphans();
        for (const Orphan& orphan : queue().orphans)
            if (orphan.blocking && orphan.context == stream.context) wait_for(op, orphan.last);
        if (checking()) race_follow_left(op->stamp);
    } else if (stream.blocking()) {
        wait_for(op, legacy_stream(*stream.context).last);
    }
}

}  // namespace

void await(const Ticket& ticket, Lock& lock) {
    if (!is_done(ticket)) {
        ticket->awaited = true;
        queue().work_done.wait(lock, [&] { return is_done(ticket); });
    }
    if (all_done()) engine_rest();
}

Ticket enqueue(Stream& stream, Work&& work) {
    return enqueue_after(stream, std::move(work), nullptr);
}

Ticket enqueue_after(Stream& stream, Work&& work, const Ticket& also) {
    auto op = std::make_shared<Op>();
    op->work = std::move(work);
    return enqueue_op(stream, op, also);
}

Ticket enqueue_op(Stream& stream, const Ticket& op, const Ticket& also) {
    op->stream = reinterpret_cast<uint64_t>(&stream);
    if (checking()) op->stamp = race_issue(stream.id);
    wait_for(op, stream.last);
    wait_for(op, also);
    wait_for_implicit_order(op, stream);
    stream.last = op;
    return add(op);
}

Ticket enqueue_barrier(std::function<CUresult()> action) {
    auto op = std::make_shared<Op>();
    op->action = std::move(action);
    for (const Ticket& last : newest()) wait_for(op, last);
    add(op);
    queue().barrier = op;
    return op;
}

CUresult settle(Entry& entry, const Ticket& ticket) {
    if (!queue().blocking) return CUDA_SUCCESS;
    await(ticket, entry.lock());
    return context_error();
}

bool is_done(const Ticket& ticket) { return ticket == nullptr || ticket->done; }

bool all_done() { return queue().in_flight == 0; }

bool host_asks(const Ticket& ticket) {
    if (!is_done(ticket)) return false;
    if (checking() && ticket != nullptr) race_host_saw(ticket->stamp);
    return true;
}

void finish(const Ticket& ticket, Lock& lock) {
    await(ticket, lock);
    host_asks(ticket);
}

void finish_issued(Lock& lock) {
    const Before issued = checking() ? race_issued() : Before{};
    for (const Ticket& ticket : newest()) await(ticket, lock);
    if (checking()) all_done() ? race_host_saw_all() : race_host_saw(issued);
}

void finish_issued(const Context& context, Lock& lock) {
    if (!has_company(context)) return finish_issued(lock);
    for (const Ticket& ticket : newest(&context)) finish(ticket, lock);
}

void finish_all(Lock& lock) {
    ++queue().awaiting_all;
    queue().work_done.wait(lock, [] { return all_done(); });
    --queue().awaiting_all;
    engine_rest();
    if (checking()) race_host_saw_all();
}

void detach(Stream& stream) {
    if (checking() && stream.blocking() && stream.last != nullptr) race_leave(stream.last->stamp);
    if (!is_done(stream.last)) queue().orphans.push_back({stream.last, stream.context, stream.blocking()});
}

void set_blocking(bool blocking) { queue().blocking = blocking; }

}  // namespace lowgraph
