// What its users make of the queue: offers of work, and waits of work for others.
#include <algorithm>
#include <chrono>
#include <thread>

#include "capture.h"
#include "context.h"
#include "queue.h"
#include "watchdog.h"

namespace lowgraph {
namespace {

constexpr auto look_again = std::chrono::microseconds(50);  // at what others will store
// What counts of the time between two looks: a process that stood still meanwhile has not waited.
constexpr double most_between_looks = 10;  // milliseconds

// Of one wait: the time in which the device had nothing to do but waits, since its work last went on.
class Patience {
public:
    // At each look, with big_lock. False: it is used up.
    bool lasts() {
        const double now = now_ms(), since = now - looked_;
        looked_ = now;
        if (progress() != seen_ || !only_waits()) waited_ = 0;
        else waited_ += std::min(since, most_between_looks);
        seen_ = progress();
        return limit_ <= 0 || waited_ < limit_;
    }

private:
    const double limit_ = 1000 * kernel_seconds();
    double waited_ = 0, looked_ = now_ms();
    uint64_t seen_ = progress();
};

}  // namespace

CUresult submit(Entry& entry, Stream& stream, Work&& work) {
    return settle(entry, enqueue(stream, std::move(work)));
}

CUresult offer(Entry& entry, Stream& stream, Work&& work) {
    const Route route = route_work(stream, std::move(work));
    if (route.kind != Route::run) return route.code;
    return submit(entry, stream, std::move(work));
}

Waited wait_for_others(const std::function<bool()>& there) {
    Lock lock(big_lock);
    if (there()) return Waited::there;
    leave_executor();
    Patience patience;
    bool found = false, lasts = true;
    while (!found && lasts && context_error() == CUDA_SUCCESS) {
        lock.unlock();
        std::this_thread::sleep_for(look_again);
        lock.lock();
        found = there();
        lasts = patience.lasts();
    }
    return_to_executor();
    note_progress();  // the others' patience begins anew: one wait is ended at a time
    if (found) return Waited::there;
    return context_error() == CUDA_SUCCESS ? Waited::overdue : Waited::broke;
}

double now_ms() {
    const auto since_start = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration<double, std::milli>(since_start).count();
}

}  // namespace lowgraph
