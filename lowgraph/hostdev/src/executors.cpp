// The threads that carry out what is ready.
#include "executors.h"

#include <algorithm>
#include <chrono>
#include <system_error>
#include <thread>

#include <immintrin.h>

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

uint64_t& stream_of_thread() {
    thread_local uint64_t stream = 0;
    return stream;
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

}  // namespace

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

}  // namespace lowgraph
