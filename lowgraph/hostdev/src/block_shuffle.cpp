// Shuffle mode inside a block: its threads are fibers from the start, and dice say who goes on.
#include "block.h"

namespace lowgraph {

void Block::begin_shuffled(uint64_t index) {
    dice_ = Dice(mixed(job->seed, index));
    const uint32_t first = dice_.below(lowgraph_thread.threads);
    reset_warps();
    alive = lowgraph_thread.threads;
    warp_of(first).started = 1u << first % 32;
    stack_of_[first] = stack_of_[0];
    enter(first);
    lowgraph_thread.fibers = 1;
}

int Block::any_ready() {
    uint32_t able = 0;
    for (uint32_t i = 0; i < warp_count_; ++i)
        if (warps[i].ready() != 0) able |= 1u << i;
    if (able == 0) return -1;
    const uint32_t warp = dice_.lane_of(able);
    return static_cast<int>(warp * 32 + dice_.lane_of(warps[warp].ready()));
}

// The calling thread need not wait; others of the block may all the same be quicker.
SwitchPlan Block::give_way() {
    const uint32_t self = lowgraph_thread.linear;
    const int next = any_ready();
    if (next == static_cast<int>(self)) return {nullptr, nullptr};
    return suspend_for(static_cast<uint32_t>(next));
}

}  // namespace lowgraph
