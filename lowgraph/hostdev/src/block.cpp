#include "block.h"

#include <cstring>
#include <mutex>
#include <vector>

#include "fault.h"
#include "shared_gaps.h"
#include "watchdog.h"
#include "watcher.h"

extern "C" {
__thread lowgraph::ThreadState lowgraph_thread;
}

namespace lowgraph {

namespace {

// Blocks of threads that have ended, for the next one that runs kernels: each has reserved 70 MiB of
// addresses.
struct Spare {
    std::mutex lock;
    std::vector<Block*> blocks;
};

// Leaked: threads end while the process is torn down.
Spare& spare() {
    static Spare* const instance = new Spare;
    return *instance;
}

Block* take_block() {
    {
        const std::lock_guard<std::mutex> hold(spare().lock);
        if (!spare().blocks.empty()) {
            Block* const block = spare().blocks.back();
            spare().blocks.pop_back();
            return block;
        }
    }
    return new Block;
}

// What a thread that runs kernels has while it lives.
struct Lease {
    Block* const block = take_block();
    void* const signal_stack = use_alternate_signal_stack();

    Lease() = default;
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    ~Lease() {
        give_signal_stack_back(signal_stack);
        const std::lock_guard<std::mutex> hold(spare().lock);
        spare().blocks.push_back(block);
    }
};

}  // namespace

Block& Block::of_this_thread() {
    static thread_local Lease mine;
    return *mine.block;
}

uint64_t Block::work(Job& work_job) {
    prepare(work_job);
    const OnTheClock clock(work_job);
    const uint32_t chunk = work_job.chunk;
    uint64_t done = 0;
    while (!work_job.faulted.load(std::memory_order_relaxed)) {
        const uint64_t first = work_job.next.fetch_add(chunk, std::memory_order_relaxed);
        if (first >= work_job.blocks) break;
        const uint64_t end = first + chunk < work_job.blocks ? first + chunk : work_job.blocks;
        for (uint64_t index = first; index < end; ++index, ++done) {
            const uint64_t block = in_order != 0 ? index : work_job.order.at(index);
            if (!run(block) && work_job.faulted.load(std::memory_order_relaxed)) break;
        }
    }
    lowgraph_thread.runner = nullptr;
    work_job.switches.fetch_add(switches, std::memory_order_relaxed);
    return done;
}

void Block::prepare(Job& work_job) {
    const Launch& launch = *work_job.launch;
    const Extent size{launch.block[0], launch.block[1], launch.block[2]};
    job = &work_job;
    switches = 0;
    warp_count_ = (work_job.threads + 31) / 32;
    if (size.x != indexed_size_.x || size.y != indexed_size_.y || size.z != indexed_size_.z) {
        indexed_size_ = size;
        uint32_t thread = 0;
        for (uint32_t z = 0; z < size.z; ++z)
            for (uint32_t y = 0; y < size.y; ++y)
                for (uint32_t x = 0; x < size.x; ++x) index_[thread++] = {x, y, z};
    }
    in_order = shuffling() ? 0 : ~0u;
    lowgraph_thread.late_copies = shuffling() || watched();
    code = kernel_code(reinterpret_cast<uint64_t>(launch.kernel->run));
    // Outside the kernel's fibers: the first touch may allocate.
    shared_tail_ = launch.kernel->touch();
    gaps_ = watched() ? nullptr : launch.gaps;  // the check build tells where it was done
    if (gaps_ != nullptr) begin_gaps(*gaps_, shared_tail_);
    else if (shared_tail_[0] != shared_tail_fill) fill_shared_tail();  // new in this OS thread
    lowgraph_thread.block_size = size;
    lowgraph_thread.grid = {launch.grid[0], launch.grid[1], launch.grid[2]};
    lowgraph_thread.dynamic_shared = shared.tail(launch.shared_bytes);
    lowgraph_thread.dynamic_shared_bytes = launch.shared_bytes;
    lowgraph_thread.threads = work_job.threads;
    lowgraph_thread.runner = this;
}

// False: the block ended early, by a fault or by what a check found.
bool Block::run(uint64_t index) {
    ThreadState& state = lowgraph_thread;
    const uint64_t row = index / state.grid.x;
    state.block = {static_cast<uint32_t>(index % state.grid.x),
                   static_cast<uint32_t>(row % state.grid.y),
                   static_cast<uint32_t>(row / state.grid.y)};
    state.linear = 0;
    state.thread = {0, 0, 0};
    state.fibers = 0;
    // NaN for floats, -1 for integers: what an earlier block left must not be mistaken for
    // initialised.
    if (state.dynamic_shared_bytes != 0)
        std::memset(state.dynamic_shared, 0xff, state.dynamic_shared_bytes);
    aborted_ = to_end = false;
    stacks.reset();
    copies.begin_block();
    stack_of_[0] = stacks.take();
    if (in_order == 0) begin_shuffled(index);
    if (watched()) watcher->block_begins(*this, index);
    const int first = stack_of_[state.linear];
    lowgraph_switch(&main_, stacks.prepare(first, fiber_main));
    // In the check build it was told where it was done, and what is left is to put the bytes back.
    if (!aborted_ && !shared_tail_holds()) watched() ? fill_shared_tail() : report_shared_tail();
    if (aborted_) {
        stacks.forget_frames();
        fill_shared_tail();
    }
    return !aborted_;
}

void Block::fill_shared_tail() {
    std::memset(shared_tail_, shared_tail_fill, shared_tail_bytes);
    if (gaps_ != nullptr) fill_gaps(*gaps_, shared_tail_);
}

// The gaps beside the kernel's variables; of an image without them, the first bytes behind the last.
bool Block::shared_tail_holds() const {
    if (gaps_ != nullptr) return broken_gap(*gaps_, shared_tail_) == nullptr;
    constexpr size_t looked_at = 128;
    uint64_t words[looked_at / 8], differing = 0;
    std::memcpy(words, shared_tail_, looked_at);
    for (const uint64_t word : words) differing |= word ^ 0x0101010101010101u * shared_tail_fill;
    return differing == 0;
}

void Block::report_shared_tail() {
    lowgraph_thread.thread = {0, 0, 0};
    aborted_ = true;
    if (gaps_ != nullptr) {
        const std::string text = damage_text(*broken_gap(*gaps_, shared_tail_), shared_tail_);
        return fault_here(700, 0, "some thread of this block wrote %s", text.c_str());
    }
    size_t first = 0;
    while (shared_tail_[first] == shared_tail_fill) ++first;
    fault_here(700, 0,
               "some thread of this block wrote past the end of the kernel's __shared__ variables, "
               "%zu bytes behind the last of them",
               first);
}

// What every fresh stack runs: the kernel, for one thread after another.
LEAVES_BY_SWITCH void Block::fiber_main() {
    Block& block = *lowgraph_thread.runner;
    block.job->launch->kernel->run(block.job->launch->params);
    void* unused;
    lowgraph_switch(&unused, block.main_);
    __builtin_unreachable();
}

// As a block begins: nobody waits or has run.
void Block::reset_warps() {
    for (uint32_t i = 0; i < warp_count_; ++i) {
        const uint32_t lanes = lowgraph_thread.threads - i * 32;
        warps[i].reset(lanes >= 32 ? ~0u : (1u << lanes) - 1);
    }
    at_barrier = 0;
    votes = {0, 1, 0};
}

// The calling thread is the first of its block that waits: the threads before it have returned,
// those after it have not begun.
void Block::start_fibers() {
    const uint32_t threads = lowgraph_thread.threads, self = lowgraph_thread.linear;
    reset_warps();
    for (uint32_t i = 0; i < self / 32; ++i) warps[i].returned = ~0u;
    Warp& warp = warp_of(self);
    warp.returned = (1u << self % 32) - 1;
    warp.started = warp.returned | 1u << self % 32;
    alive = threads - self;
    stack_of_[self] = stack_of_[0];
    lowgraph_thread.delivery = &warp.delivery;
    lowgraph_thread.fibers = 1;
}

// A ready thread, the caller's own warp first, then the warps after it in a ring; -1: there is
// none.
int Block::next_ready(uint32_t after) {
    if (in_order == 0) return any_ready();
    const uint32_t own = after / 32, lane = after % 32;
    if (const uint32_t ready = warps[own].ready()) {
        const uint32_t above = ready & (~1u << lane);
        return static_cast<int>(own * 32) + __builtin_ctz(above != 0 ? above : ready);
    }
    for (uint32_t step = 1; step < warp_count_; ++step) {
        const uint32_t other = own + step < warp_count_ ? own + step : own + step - warp_count_;
        if (const uint32_t ready = warps[other].ready())
            return static_cast<int>(other * 32) + __builtin_ctz(ready);
    }
    return -1;
}

LEAVES_BY_SWITCH SwitchPlan Block::suspend_for_any(uint32_t self) {
    const int next = next_ready(self);
    if (next < 0) deadlock();
    return suspend_for(static_cast<uint32_t>(next));
}

SwitchPlan Block::suspend_for(uint32_t next) {
    Warp& warp = warps[next / 32];
    const uint32_t bit = 1u << next % 32;
    if (!(warp.started & bit)) {
        warp.started |= bit;
        stack_of_[next] = stacks.take();
        places_[next] = stacks.prepare(stack_of_[next], fiber_main);
    }
    return change_to(next);
}

// In a ring through the whole block: the one that is waited for may be of any warp.
SwitchPlan Block::let_others_run() {
    const uint32_t threads = lowgraph_thread.threads, self = lowgraph_thread.linear;
    for (uint32_t step = 1; step < threads; ++step) {
        const uint32_t next = (self + step) % threads;
        if (warp_of(next).ready() >> next % 32 & 1) return suspend_for(next);
    }
    return {nullptr, nullptr};
}

void Block::release_barrier() {
    if (watched()) watcher->barrier_completes(*this);
    for (uint32_t i = 0; i < warp_count_; ++i) warps[i].at_barrier = 0;
    at_barrier = 0;
    result = votes;
    votes = {0, 1, 0};
}

LEAVES_BY_SWITCH void Block::abandon() {
    aborted_ = true;
    void* unused;
    lowgraph_switch(&unused, main_);
    __builtin_unreachable();
}

LEAVES_BY_SWITCH int Block::after_return() {
    const uint32_t self = lowgraph_thread.linear;
    --alive;
    warp_of(self).leave(self % 32);
    if (__builtin_expect(to_end, 0)) abandon();
    if (alive != 0 && at_barrier == alive) release_barrier();
    if (alive == 0) return 0;
    const int next = next_ready(self);
    if (next < 0) deadlock();
    Warp& warp = warps[next / 32];
    const uint32_t bit = 1u << next % 32;
    enter(static_cast<uint32_t>(next));
    if (!(warp.started & bit)) {  // it has not begun: it may have this stack
        warp.started |= bit;
        stack_of_[next] = stack_of_[self];
        return 1;
    }
    stacks.give_back(stack_of_[self]);
    ++switches;
    void* unused;
    lowgraph_switch(&unused, places_[next]);
    __builtin_unreachable();
}

}  // namespace lowgraph
