#include "watchdog.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <mutex>
#include <thread>
#include <vector>

#include <pthread.h>

#include "fault.h"
#include "watcher.h"

namespace lowgraph {
namespace {

constexpr auto between_looks = std::chrono::milliseconds(10);

struct Runner {
    pthread_t thread;
    Job* job;
    clockid_t clock;  // the thread's processor time
    double begin;     // on that clock
};

struct Watch {
    std::mutex lock;
    std::condition_variable any;
    std::vector<Runner> entries;
    std::atomic<double> seconds{0};
    bool started = false;
};

// Leaked: its thread waits in it while the process is torn down.
Watch& watch() {
    static Watch* const instance = new Watch;
    return *instance;
}

// Processor time: a launch whose process waits, for a core on a busy machine or for being continued,
// is not one that never ends.
double seconds_on(clockid_t clock) {
    timespec time{};
    clock_gettime(clock, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// A thread that is not in the kernel's own code just now (in a math function, in a hook) is nudged
// again at the next look.
void look(Watch& all) {
    bool stopped_any = false;
    for (const Runner& entry : all.entries)
        if (seconds_on(entry.clock) - entry.begin >= entry.job->seconds) entry.job->overdue = true;
    for (const Runner& entry : all.entries) {
        if (!is_overdue(*entry.job)) continue;  // of all that run the launch
        stopped_any = true;
        pthread_kill(entry.thread, stop_signal);
    }
    if (stopped_any && watched()) watcher->stop_wanted();
}

void run(Watch& all) {
    std::unique_lock<std::mutex> hold(all.lock);
    for (;;) {
        all.any.wait(hold, [&] { return !all.entries.empty(); });
        all.any.wait_for(hold, between_looks);
        look(all);
    }
}

// Under the lock.
void start(Watch& all) {
    if (all.started) return;
    all.started = true;
    take_stop_signal();
    sigset_t every, old;
    sigfillset(&every);
    pthread_sigmask(SIG_SETMASK, &every, &old);  // signals are for Python's thread
    std::thread([&all] { run(all); }).detach();
    pthread_sigmask(SIG_SETMASK, &old, nullptr);
}

}  // namespace

void set_kernel_seconds(double seconds) { watch().seconds.store(seconds); }

double kernel_seconds() { return watch().seconds.load(std::memory_order_relaxed); }

void start_clock(Job& job) { job.seconds = kernel_seconds(); }

OnTheClock::OnTheClock(Job& job) {
    if (job.seconds <= 0) return;
    clockid_t clock{};
    pthread_getcpuclockid(pthread_self(), &clock);  // cannot fail for a thread that lives
    Watch& all = watch();
    const std::lock_guard<std::mutex> hold(all.lock);
    start(all);
    all.entries.push_back({pthread_self(), &job, clock, seconds_on(clock)});
    listed_ = true;
    all.any.notify_one();
}

OnTheClock::~OnTheClock() {
    if (!listed_) return;
    Watch& all = watch();
    const std::lock_guard<std::mutex> hold(all.lock);
    std::erase_if(all.entries, [](const Runner& entry) {
        return pthread_equal(entry.thread, pthread_self()) != 0;
    });
}

void tell_overdue(uint64_t pc) {
    Job& job = *lowgraph_thread.runner->job;
    char text[160];
    std::snprintf(text, sizeof text,
                  "the kernel ran for more than %g s and was stopped here "
                  "(LOWGRAPH_HOST_KERNEL_SECONDS)",
                  job.seconds);
    if (job.faulted.load()) return;
    if (watched() && watcher->overdue(job, pc, text)) {
        job.faulted.store(true);  // with no fault: the launch ends, and counts as done
    } else {
        char place[120];
        place_of_code(pc - 1, place, sizeof place);
        fault_here(702, 0, "%s%s%s", text, place[0] != '\0' ? ": " : "", place);
    }
}

LEAVES_BY_SWITCH void end_overdue(uint64_t pc) {
    tell_overdue(pc);
    lowgraph_thread.runner->abandon();
}

}  // namespace lowgraph
