// One OS thread's runner of blocks. A block's threads run one after another on one stack, as a
// plain loop, until one has to wait; then that stack is kept, the next thread gets another one, and
// the block goes on as fibers. A kernel without barriers therefore switches never, with nothing to
// detect beforehand.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>

#include "async_copies.h"
#include "engine.h"
#include "fibers.h"
#include "shuffle.h"
#include "warp.h"

namespace lowgraph {

// A launch in progress, shared by the threads that run its blocks.
struct Job {
    const Launch* launch;
    uint64_t blocks;
    uint32_t threads;  // of a block
    uint32_t chunk;    // blocks taken at a time
    uint64_t seed = 0;  // of the dice of its blocks; shuffle mode
    Order order;        // in which it takes them; shuffle mode
    std::atomic<uint64_t> next{0};
    std::atomic<bool> faulted{false};
    std::atomic<bool> printed{false};
    std::atomic<uint64_t> switches{0};
    double seconds = 0;                 // its limit of processor time; 0: none
    std::atomic<bool> overdue{false};   // that is over
    Fault fault{};  // written once, by whoever set `faulted`
};

// Predicates that threads bring to a barrier: how many are true, whether all are, whether any is.
struct Votes {
    int count, conjunction, disjunction;
};

// Where a thread waits, for the text of a deadlock.
struct WaitSite {
    const char* file;
    int line;
};

struct Block {
    static constexpr uint32_t max_threads = 1024, max_warps = max_threads / 32;

    // The calling OS thread's runner, made on first use. Runners are never freed: OS threads that
    // run kernels are few and live as long as the process.
    static Block& of_this_thread();

    // Runs blocks of the job until none is left or one thread has faulted; how many it ran.
    uint64_t work(Job& job);

    // ---- called by the threads of the running block ----
    void become_fibers() {
        if (__builtin_expect(lowgraph_thread.fibers == 0, 0)) start_fibers();
    }
    Warp& warp_of(uint32_t thread) { return warps[thread / 32]; }
    // The calling thread waits (it is marked so) and the next one that can run becomes the current
    // one. Ends the launch when nobody can.
    SwitchPlan suspend() {
        const uint32_t self = lowgraph_thread.linear;
        const Warp& warp = warp_of(self);
        const uint32_t above = warp.ready() & warp.started & (~1u << self % 32) & in_order;
        if (__builtin_expect(above == 0, 0)) return suspend_for_any(self);
        return change_to((self & ~31u) + static_cast<uint32_t>(__builtin_ctz(above)));
    }
    // The calling thread could go on at once, and does, unless shuffle mode prefers another one.
    SwitchPlan go_on() {
        return __builtin_expect(in_order != 0, 1) ? SwitchPlan{nullptr, nullptr} : give_way();
    }
    // The calling thread could go on, but all others that can run come first.
    SwitchPlan let_others_run();
    void release_barrier();
    // Ends the block at once, from whatever stack.
    [[noreturn]] void abandon();
    int after_return();
    [[noreturn]] void deadlock();

    Job* job = nullptr;
    uint32_t alive = 0;       // threads that have not returned
    uint32_t at_barrier = 0;  // threads that wait at the barrier
    uint32_t in_order = ~0u;  // 0 in shuffle mode: no thread follows from the one before it
    Votes votes{}, result{};  // brought to the barrier so far; what the last barrier handed out
    uint64_t switches = 0;  // in this job
    bool to_end = false;  // set by a watcher: the block ends once the engine has the word again
    uint64_t faulted_at = 0;  // the instruction of a thread that the processor stopped
    KernelCode code;  // of the kernel's image
    Warp warps[max_warps];
    WaitSite sites[max_threads];
    FiberStacks stacks;
    AsyncCopies copies{max_threads};
    GuardedBuffer shared{max_dynamic_shared};

private:
    void prepare(Job& job);
    void fill_shared_tail();
    bool shared_tail_holds() const;
    void report_shared_tail();
    bool run(uint64_t index);
    void start_fibers();
    void reset_warps();
    SwitchPlan suspend_for_any(uint32_t self);
    SwitchPlan suspend_for(uint32_t next);
    void enter(uint32_t thread) {
        lowgraph_thread.linear = thread;
        lowgraph_thread.thread = index_[thread];
        lowgraph_thread.delivery = &warps[thread / 32].delivery;
    }
    SwitchPlan change_to(uint32_t next) {
        void** save = &places_[lowgraph_thread.linear];
        ++switches;
        enter(next);
        return {save, places_[next]};
    }
    int next_ready(uint32_t after);
    static void fiber_main();
    // Shuffle mode (block_shuffle.cpp).
    void begin_shuffled(uint64_t index);
    int any_ready();
    SwitchPlan give_way();

    void* main_ = nullptr;  // the OS thread's own stack, while a block runs
    uint32_t warp_count_ = 0;
    bool aborted_ = false;
    static constexpr unsigned char shared_tail_fill = 0xA5;
    unsigned char* shared_tail_ = nullptr;  // behind the image's static shared memory
    const std::vector<SharedGap>* gaps_ = nullptr;
    Dice dice_;  // of the running block; shuffle mode
    Extent indexed_size_{0, 0, 0};  // the block size that index_ holds for
    Index index_[max_threads];      // threadIdx by thread number
    void* places_[max_threads];     // where each suspended thread goes on
    int stack_of_[max_threads];
};

}  // namespace lowgraph
