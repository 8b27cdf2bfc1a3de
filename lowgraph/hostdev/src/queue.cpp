#include "queue.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <system_error>

#include <immintrin.h>

#include "capture.h"
#include "check.h"
#include "context.h"
#include "engine.h"
#include "shuffle.h"
#include "stream.h"

namespace lowgraph {
namespace {

// Enough for a host function that waits for another stream's work; kernels share the engine's
// workers.
constexpr int executor_threads = 4;
// More of them stay than that: a wait in each step need not start a thread each time.
constexpr int most_kept_threads = 12;

struct Orphan {
    Ticket last;
    const Context* context = nullptr;
    bool blocking = false;
};

struct Queue {
    std::deque<Ticket> ready;
    std::atomic<bool> any_ready{false};  // of `ready`, for a look without the lock
    size_t looking = 0;                  // executor threads that look for work without the lock
    std::condition_variable work_ready, work_done;
    size_t awaiting_all = 0;  // threads that wait for nothing to be in flight
    size_t in_flight = 0;         // queued or running
    uint64_t issued = 0;
    Ticket barrier;               // the newest enqueue_barrier
    std::vector<Orphan> orphans;  // unfinished work of destroyed streams
    int threads = 0;
    int away = 0;  // of those, in wait_for_others
    int busy = 0;  // of those, that carry out an op, away or not
    uint64_t progress = 0;
    bool blocking = false;
};

// Leaked: the threads still wait in it while the process is torn down.
Queue& queue() {
    static Queue* const instance = new Queue;
    return *instance;
}

uint64_t& stream_of_thread() {
    thread_local uint64_t stream = 0;
    return stream;
}

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

// Records need their op: an event that was recorded again since keeps the newer time.
void reach_record(const RecordWork& record, const Op* op) {
    Event* event = find_event(reinterpret_cast<CUevent>(record.event));
    if (event != nullptr && event->recorded.get() == op) event->time_ms = now_ms();
}

void run_op(const Ticket& op, Lock& lock) {
    if (context_error() != CUDA_SUCCESS) return;  // nothing runs any more in a broken context
    if (const auto* record = std::get_if<RecordWork>(&op->work))
        return reach_record(*record, op.get());
    if (!op->action && std::holds_alternative<EmptyWork>(op->work)) return;
    ++queue().busy;
    lock.unlock();
    stream_of_thread() = op->stream;
    if (checking()) running_work() = {op->stamp, nullptr, 0};
    const CUresult code = op->action ? op->action() : run_work(op->work);
    take(lock);
    --queue().busy;
    if (code != CUDA_SUCCESS) set_context_error(code, "work queued earlier failed");
}

// The oldest; in shuffle mode whichever the seed and the ops' numbers put first.
Ticket take_ready() {
    std::deque<Ticket>& ready = queue().ready;
    auto chosen = ready.begin();
    if (shuffling()) {
        const auto rank = [](const Ticket& op) { return mixed(shuffle().seed, ~op->number); };
        chosen = std::ranges::min_element(ready, {}, rank);
    }
    const Ticket op = *chosen;
    ready.erase(chosen);
    queue().any_ready.store(!ready.empty(), std::memory_order_relaxed);
    return op;
}

// Shuffle mode: nothing runs at once because it could.
void hold_back(const Op& op, Lock& lock) {
    begin_op(op.number);
    const uint32_t delay = op_delay();
    if (delay == 0) return;
    lock.unlock();
    std::this_thread::sleep_for(std::chrono::microseconds(delay));
    lock.lock();
}

// For about 10 us: launches follow one another, and each sleep between two costs a wake-up and the
// engine's signals, given back and taken again.
void look_for_work(Lock& lock) {
    Queue& all = queue();
    ++all.looking;
    lock.unlock();
    for (int spin = 0; spin < 300 && !all.any_ready.load(std::memory_order_relaxed); ++spin)
        _mm_pause();
    take(lock);
    --all.looking;
    if (all.in_flight == 0) engine_rest();
}

// Threads that took the place of others that waited, which are back.
bool too_many_threads() { return queue().threads > most_kept_threads + queue().away; }

void execute() {
    Queue& all = queue();
    Lock lock(big_lock);
    for (;;) {
        if (all.ready.empty()) look_for_work(lock);
        all.work_ready.wait(lock, [&] { return !all.ready.empty() || too_many_threads(); });
        if (all.ready.empty()) break;
        const Ticket op = take_ready();
        if (shuffling()) hold_back(*op, lock);
        run_op(op, lock);
        complete(op);
    }
    --all.threads;
}

// The system may have no more threads: then those that there are do the work, and only where all of
// them wait is there nobody to do it.
void hire() {
    Queue& all = queue();
    try {
        for (; all.threads < executor_threads + all.away; ++all.threads)
            std::thread(execute).detach();
    } catch (const std::system_error&) {
        if (all.threads == all.away) throw;
    }
}

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

void await(const Ticket& ticket, Lock& lock) {
    if (!is_done(ticket)) {
        ticket->awaited = true;
        queue().work_done.wait(lock, [&] { return is_done(ticket); });
    }
    if (all_done()) engine_rest();
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
    await(ticket, entry.lock());  // no finish: another mode would not have waited
    return context_error();
}

void leave_executor() {
    ++queue().away;
    hire();
}

void return_to_executor() {
    --queue().away;
    if (too_many_threads()) queue().work_ready.notify_one();
}

uint64_t progress() { return queue().progress; }

bool only_waits() { return queue().busy == queue().away && queue().ready.empty(); }

void note_progress() { ++queue().progress; }

uint64_t running_stream() { return stream_of_thread(); }

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
