// The worker threads, and the launch that runs over them.
#include <csignal>
#include <cstdio>
#include <mutex>
#include <system_error>
#include <thread>

#include <immintrin.h>
#include <sched.h>

#include "block.h"
#include "fault.h"
#include "watchdog.h"
#include "watcher.h"

namespace lowgraph {

Watcher* watcher = nullptr;

namespace {

int cores() {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
    return CPU_COUNT(&set);
}

// What a block of each kernel took last time, in processor cycles: a small table, where a newcomer
// takes the place of whoever has its slot.
class Costs {
public:
    // A kernel not seen yet is shared: its blocks may be long.
    bool worth_sharing(const Job& job) const {
        const Row& row = row_of(job);
        return row.kernel != job.launch->kernel || row.cycles * job.blocks > wake_up;
    }
    void note(const Job& job, uint64_t cycles, uint64_t blocks) {
        if (blocks != 0) rows_[slot(job)] = {job.launch->kernel, cycles / blocks};
    }

private:
    static constexpr uint64_t wake_up = 30000;  // cycles, about 10 us: what waking a helper costs
    static constexpr size_t slots = 256;
    struct Row {
        const KernelEntry* kernel = nullptr;
        uint64_t cycles = 0;
    };
    static size_t slot(const Job& job) {
        return reinterpret_cast<uintptr_t>(job.launch->kernel) / 64 % slots;
    }
    const Row& row_of(const Job& job) const { return rows_[slot(job)]; }

    Row rows_[slots];
};

// Helpers join a launch when they get to it and are not waited for unless they did: a helper that
// the system has not woken yet costs the launch nothing, and a child process after fork(), which
// has no helpers, still runs kernels.
class Pool {
public:
    void start(int workers) {
        const std::lock_guard guard(start_lock_);
        if (started_ == 0) limit_.store(workers > 0 ? workers : cores());
        grow();
    }
    void set_limit(int workers) {
        const std::lock_guard guard(start_lock_);
        limit_.store(workers > 0 ? workers : cores());
        grow();
    }
    // Runs the job, with the helpers if that is worth a wake-up and no other launch has them.
    void run(Job& job) {
        const std::unique_lock guard(launch_lock_, std::try_to_lock);
        const bool shared = guard && limit() > 1 && job.blocks > 1 && !watched() &&
                            costs_.worth_sharing(job);
        if (shared) open(job);
        const uint64_t begin = __builtin_ia32_rdtsc();
        const uint64_t done = Block::of_this_thread().work(job);
        if (guard) costs_.note(job, __builtin_ia32_rdtsc() - begin, done);
        if (shared) close();
    }
    int limit() const { return limit_.load(std::memory_order_relaxed); }
    void add_switches(uint64_t n) { switches_.fetch_add(n, std::memory_order_relaxed); }
    uint64_t take_switches() { return switches_.exchange(0); }

private:
    static constexpr uint32_t open_bit = 1u << 31;  // the other bits count the helpers inside

    void open(Job& job) {
        job_ = &job;
        gate_.store(open_bit, std::memory_order_release);
        round_.fetch_add(1, std::memory_order_release);
        round_.notify_all();
    }
    void close() {
        gate_.fetch_and(~open_bit, std::memory_order_acq_rel);
        for (int spin = 0; gate_.load(std::memory_order_acquire) != 0; ++spin) {
            spin < 2000 ? _mm_pause() : static_cast<void>(sched_yield());
        }
    }
    // Under start_lock_. Helpers never end.
    void grow() {
        if (started_ == 0) started_ = 1;  // the calling thread
        sigset_t all, old;
        sigfillset(&all);
        for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, stop_signal})
            sigdelset(&all, signal);
        // Ctrl-C is for Python's thread, not for a fiber's stack.
        pthread_sigmask(SIG_SETMASK, &all, &old);
        try {
            while (started_ < limit()) {
                std::thread(&Pool::help, this, started_).detach();
                ++started_;
            }
        } catch (const std::system_error&) {
            // The system gives no more threads: launches use those there are.
        }
        pthread_sigmask(SIG_SETMASK, &old, nullptr);
    }
    bool join() {
        uint32_t gate = gate_.load(std::memory_order_relaxed);
        do {
            if (!(gate & open_bit)) return false;
        } while (!gate_.compare_exchange_weak(gate, gate + 1, std::memory_order_acquire));
        return true;
    }
    void help(int number) {
        uint32_t seen = 0;
        for (;;) {
            // About 20 us: launches of a step follow one another, and a wake-up costs as much.
            for (int spin = 0; spin < 500 && round_.load(std::memory_order_acquire) == seen;
                 ++spin) {
                _mm_pause();
            }
            round_.wait(seen, std::memory_order_acquire);
            seen = round_.load(std::memory_order_acquire);
            if (number >= limit() || !join()) continue;
            Block::of_this_thread().work(*job_);
            gate_.fetch_sub(1, std::memory_order_release);
        }
    }

    std::mutex start_lock_, launch_lock_;
    int started_ = 0;  // workers so far, the calling thread included
    std::atomic<int> limit_{0};
    Costs costs_;  // under launch_lock_
    Job* job_ = nullptr;
    std::atomic<uint32_t> gate_{0}, round_{0};
    std::atomic<uint64_t> switches_{0};
};

Pool& pool = *new Pool;  // never destroyed: helpers wait on it when the process ends

}  // namespace

void engine_start(int workers) { pool.start(workers); }
void engine_set_workers(int workers) { pool.set_limit(workers); }
void engine_rest() { give_signals_back(); }
uint64_t engine_take_switches() { return pool.take_switches(); }

Fault run_kernel(const Launch& launch) {
    if (pool.limit() == 0) pool.start(0);
    Job job;
    job.launch = &launch;
    job.threads = launch.block[0] * launch.block[1] * launch.block[2];
    job.blocks = uint64_t{launch.grid[0]} * launch.grid[1] * launch.grid[2];
    if (job.threads == 0 || job.threads > Block::max_threads ||
        launch.shared_bytes > max_dynamic_shared) {
        job.fault.code = 1;
        snprintf(job.fault.text, sizeof job.fault.text,
                 "kernel '%.80s': %u threads a block, %u bytes of shared memory",
                 launch.kernel->name, job.threads, launch.shared_bytes);
        return job.fault;
    }
    const uint64_t share = job.blocks / (static_cast<uint64_t>(pool.limit()) * 16);
    job.chunk = static_cast<uint32_t>(share < 1 ? 1 : share > 64 ? 64 : share);
    if (shuffling()) {
        job.seed = mixed(shuffle().seed, op_dice().next());
        job.order = Order(job.blocks, Dice(job.seed));
    }
    take_signals();
    start_clock(job);
    if (watched()) watcher->launch_begins(job);
    pool.run(job);
    if (watched()) watcher->launch_ends();
    release_signals();
    pool.add_switches(job.switches.load());
    if (job.printed.load()) fflush(stdout);
    return job.fault;
}

}  // namespace lowgraph
