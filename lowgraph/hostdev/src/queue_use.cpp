// What its users make of the queue: offers of work, and waits of work for others.
#include <chrono>
#include <thread>

#include "capture.h"
#include "context.h"
#include "queue.h"

namespace lowgraph {
namespace {

constexpr auto look_again = std::chrono::microseconds(50);  // at what others will store

}  // namespace

CUresult submit(Entry& entry, Stream& stream, Work&& work) {
    return settle(entry, enqueue(stream, std::move(work)));
}

CUresult offer(Entry& entry, Stream& stream, Work&& work) {
    const Route route = route_work(stream, std::move(work));
    if (route.kind != Route::run) return route.code;
    return submit(entry, stream, std::move(work));
}

bool wait_for_others(const std::function<bool()>& there) {
    Lock lock(big_lock);
    if (there()) return true;
    leave_executor();
    bool found = false;
    while (!found && context_error() == CUDA_SUCCESS) {
        lock.unlock();
        std::this_thread::sleep_for(look_again);
        lock.lock();
        found = there();
    }
    return_to_executor();
    return found;
}

double now_ms() {
    const auto since_start = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration<double, std::milli>(since_start).count();
}

}  // namespace lowgraph
