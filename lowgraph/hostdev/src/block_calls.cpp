// What a kernel image calls when one of its threads meets a barrier or a warp operation, or
// returns.
#include <cstdarg>
#include <cstdio>

#include "block.h"
#include "fault.h"
#include "watchdog.h"
#include "watcher.h"

using namespace lowgraph;

namespace {

// Where the calling thread waits, or ends because its launch has run too long.
LEAVES_BY_SWITCH void note_site(Block& block, const char* file, int line) {
    block.sites[lowgraph_thread.linear] = {file, line};
    if (is_overdue(*block.job)) end_overdue(0);
}

}  // namespace

extern "C" {

LEAVES_BY_SWITCH SwitchPlan lowgraph_barrier_arrive(const char* file, int line) {
    Block& block = *lowgraph_thread.runner;
    block.become_fibers();
    const uint32_t self = lowgraph_thread.linear;
    if (watched()) note_site(block, file, line);
    if (++block.at_barrier == block.alive) {
        block.release_barrier();
        return block.go_on();
    }
    block.warp_of(self).at_barrier |= 1u << self % 32;
    block.sites[self] = {file, line};
    return block.suspend();
}

void lowgraph_barrier_vote(int predicate) {
    Block& block = *lowgraph_thread.runner;
    block.become_fibers();  // the first wait clears the votes
    block.votes.count += predicate;
    block.votes.conjunction &= predicate;
    block.votes.disjunction |= predicate;
}

int lowgraph_barrier_count() { return lowgraph_thread.runner->result.count; }
int lowgraph_barrier_and() { return lowgraph_thread.runner->result.conjunction; }
int lowgraph_barrier_or() { return lowgraph_thread.runner->result.disjunction; }

LEAVES_BY_SWITCH SwitchPlan lowgraph_warp_arrive(uint32_t mask, uint64_t value, uint32_t source,
                                                 const char* file, int line) {
    Block& block = *lowgraph_thread.runner;
    block.become_fibers();
    const uint32_t self = lowgraph_thread.linear, lane = self % 32;
    if (__builtin_expect(!(mask >> lane & 1), 0)) {
        if (watched()) watcher->outside_mask(block, mask, file, line);
        if (block.to_end) block.abandon();
        lowgraph_trap(719, "the calling lane is not in the mask of its warp operation", file, line);
    }
    if (watched()) note_site(block, file, line);
    const bool complete = block.warp_of(self).arrive(lane, mask, value, source);
    if (__builtin_expect(block.to_end, 0)) block.abandon();
    if (complete) return block.go_on();
    block.sites[self] = {file, line};
    return block.suspend();
}

SwitchPlan lowgraph_give_way() {
    Block& block = *lowgraph_thread.runner;
    block.become_fibers();
    return block.let_others_run();
}

LEAVES_BY_SWITCH int lowgraph_next_thread() { return lowgraph_thread.runner->after_return(); }

LEAVES_BY_SWITCH void lowgraph_trap(int code, const char* why, const char* file, int line) {
    fault_here(code, 0, "%s (%s:%d)", why, file, line);
    lowgraph_thread.runner->abandon();
}

// The text is put together before the stream is locked: a bad pointer among the arguments must not
// leave the process with a locked stdout. It is flushed when the launch has ended.
int lowgraph_printf(const char* format, ...) {
    char text[1024];
    va_list args;
    va_start(args, format);
    const int length = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fputs(text, stdout);
    lowgraph_thread.runner->job->printed.store(true, std::memory_order_relaxed);
    return length;
}

}  // extern "C"
