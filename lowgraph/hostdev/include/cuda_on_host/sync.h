// Barriers and warp operations. Ordinary functions whose default arguments carry the caller's file
// and line, for the text of a deadlock; always inlined but in the check build, because the switch
// is faster in the kernel's own frame (fiber_switch.h).
#pragma once

#define LOWGRAPH_HERE const char *file = __builtin_FILE(), int line = __builtin_LINE()

LOWGRAPH_INLINE void lowgraph_wait(lowgraph::SwitchPlan plan) {
    if (plan.load != nullptr) lowgraph_switch(plan.save, plan.load);
}

// ---- the block ----
LOWGRAPH_INLINE void __syncthreads(LOWGRAPH_HERE) {
    lowgraph_wait(lowgraph_barrier_arrive(file, line));
}

LOWGRAPH_INLINE int __syncthreads_count(int predicate, LOWGRAPH_HERE) {
    lowgraph_barrier_vote(predicate != 0);
    __syncthreads(file, line);
    return lowgraph_barrier_count();
}
LOWGRAPH_INLINE int __syncthreads_and(int predicate, LOWGRAPH_HERE) {
    lowgraph_barrier_vote(predicate != 0);
    __syncthreads(file, line);
    return lowgraph_barrier_and();
}
LOWGRAPH_INLINE int __syncthreads_or(int predicate, LOWGRAPH_HERE) {
    lowgraph_barrier_vote(predicate != 0);
    __syncthreads(file, line);
    return lowgraph_barrier_or();
}

// ---- the warp ----
LOWGRAPH_INLINE uint32_t lowgraph_lane() { return lowgraph_thread.linear & 31; }

// Waits for the lanes of the mask; the value that lane `source` brought, or the ballot.
LOWGRAPH_INLINE uint64_t lowgraph_exchange(uint32_t mask, uint64_t value, uint32_t source,
                                           const char* file, int line) {
    lowgraph_wait(lowgraph_warp_arrive(mask, value, source, file, line));
    return lowgraph_thread.delivery->result[lowgraph_lane()];
}
// The lanes that took part in the calling lane's last operation: those of its mask that had not
// returned.
LOWGRAPH_INLINE uint32_t lowgraph_members() {
    return lowgraph_thread.delivery->members[lowgraph_lane()];
}

LOWGRAPH_INLINE void __syncwarp(uint32_t mask = 0xffffffffu, LOWGRAPH_HERE) {
    lowgraph_exchange(mask, 0, lowgraph_lane(), file, line);
}

template <class T>
LOWGRAPH_INLINE T lowgraph_shuffle(uint32_t mask, T value, uint32_t source, const char* file,
                                   int line) {
    static_assert(sizeof(T) <= 8, "a shuffle moves at most 8 bytes");
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof(T));
    bits = lowgraph_exchange(mask, bits, source, file, line);
    if (__builtin_expect(!(lowgraph_members() >> source & 1), 0)) {
        lowgraph_trap(719, "a shuffle reads from a lane that takes no part in it", file, line);
    }
    memcpy(&value, &bits, sizeof(T));
    return value;
}

// The lane that a shuffle reads from, by the rules of the CUDA C++ guide: a warp is cut into
// segments of `width` lanes (1, 2, 4, 8, 16 or 32); a source outside the segment is the lane
// itself, except for __shfl_sync, which wraps.
LOWGRAPH_INLINE uint32_t lowgraph_segment_start(int width) {
    return lowgraph_lane() & ~(uint32_t)(width - 1);
}
LOWGRAPH_INLINE uint32_t lowgraph_source_inside(uint32_t source, int width) {
    const uint32_t start = lowgraph_segment_start(width);
    return source >= start && source < start + (uint32_t)width ? source : lowgraph_lane();
}

template <class T>
LOWGRAPH_INLINE T __shfl_sync(uint32_t mask, T value, int source, int width = 32, LOWGRAPH_HERE) {
    const uint32_t lane =
        lowgraph_segment_start(width) | ((uint32_t)source & (uint32_t)(width - 1));
    return lowgraph_shuffle(mask, value, lane, file, line);
}
template <class T>
LOWGRAPH_INLINE T __shfl_up_sync(uint32_t mask, T value, uint32_t delta, int width = 32,
                                 LOWGRAPH_HERE) {
    return lowgraph_shuffle(mask, value, lowgraph_source_inside(lowgraph_lane() - delta, width),
                            file, line);
}
template <class T>
LOWGRAPH_INLINE T __shfl_down_sync(uint32_t mask, T value, uint32_t delta, int width = 32,
                                   LOWGRAPH_HERE) {
    return lowgraph_shuffle(mask, value, lowgraph_source_inside(lowgraph_lane() + delta, width),
                            file, line);
}
// A source in an earlier segment is allowed here, one in a later segment is not.
template <class T>
LOWGRAPH_INLINE T __shfl_xor_sync(uint32_t mask, T value, int lane_mask, int width = 32,
                                  LOWGRAPH_HERE) {
    const uint32_t source = lowgraph_lane() ^ (uint32_t)lane_mask;
    const bool allowed = source < lowgraph_segment_start(width) + (uint32_t)width;
    return lowgraph_shuffle(mask, value, allowed ? source : lowgraph_lane(), file, line);
}

LOWGRAPH_INLINE uint32_t __ballot_sync(uint32_t mask, int predicate, LOWGRAPH_HERE) {
    return (uint32_t)lowgraph_exchange(mask, predicate != 0, lowgraph::vote, file, line);
}
LOWGRAPH_INLINE int __any_sync(uint32_t mask, int predicate, LOWGRAPH_HERE) {
    return __ballot_sync(mask, predicate, file, line) != 0;
}
LOWGRAPH_INLINE int __all_sync(uint32_t mask, int predicate, LOWGRAPH_HERE) {
    return __ballot_sync(mask, predicate, file, line) == lowgraph_members();
}
// Threads run one at a time here, so the lanes that run together are the caller alone. A kernel
// that takes the result for "all lanes" depends on how a GPU happens to schedule it; its shuffles
// are then caught.
LOWGRAPH_INLINE uint32_t __activemask() { return 1u << lowgraph_lane(); }

// One exchange for each lane of the mask: right, and slow.
template <class T, class Combine>
LOWGRAPH_INLINE T lowgraph_reduce(uint32_t mask, T value, Combine combine, const char* file,
                                  int line) {
    __ballot_sync(mask, 1, file, line);
    const uint32_t members = lowgraph_members();
    T total = lowgraph_shuffle(mask, value, (uint32_t)__builtin_ctz(members), file, line);
    for (uint32_t rest = members & (members - 1); rest != 0; rest &= rest - 1) {
        total = combine(total,
                        lowgraph_shuffle(mask, value, (uint32_t)__builtin_ctz(rest), file, line));
    }
    return total;
}
template <class T>
LOWGRAPH_INLINE T __reduce_add_sync(uint32_t mask, T value, LOWGRAPH_HERE) {
    return lowgraph_reduce(mask, value, [](T a, T b) { return (T)(a + b); }, file, line);
}
template <class T>
LOWGRAPH_INLINE T __reduce_min_sync(uint32_t mask, T value, LOWGRAPH_HERE) {
    return lowgraph_reduce(mask, value, [](T a, T b) { return b < a ? b : a; }, file, line);
}
template <class T>
LOWGRAPH_INLINE T __reduce_max_sync(uint32_t mask, T value, LOWGRAPH_HERE) {
    return lowgraph_reduce(mask, value, [](T a, T b) { return a < b ? b : a; }, file, line);
}
// The lanes of the mask whose value is the caller's.
template <class T>
LOWGRAPH_INLINE uint32_t __match_any_sync(uint32_t mask, T value, LOWGRAPH_HERE) {
    __ballot_sync(mask, 1, file, line);
    uint32_t same = 0;
    for (uint32_t rest = lowgraph_members(); rest != 0; rest &= rest - 1) {
        const uint32_t lane = (uint32_t)__builtin_ctz(rest);
        same |= (uint32_t)(lowgraph_shuffle(mask, value, lane, file, line) == value) << lane;
    }
    return same;
}

// ---- fences ----
LOWGRAPH_INLINE void __threadfence() {
    LOWGRAPH_TELL_FENCE();
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
LOWGRAPH_INLINE void __threadfence_system() { __threadfence(); }
LOWGRAPH_INLINE void __threadfence_block() {
    LOWGRAPH_TELL_BLOCK_FENCE();
    __atomic_signal_fence(__ATOMIC_SEQ_CST);  // one OS thread a block
}

// ---- waiting in a loop ----
// The threads of a block run one at a time here. One that waits in a loop, for a flag or a lock, has
// to let the others run, which a GPU would run beside it.
// In the section of the hooks: an endless kernel is not stopped in there, where no line is the user's.
static __attribute__((noinline, section("lowgraph_hooks"))) LOWGRAPH_QUIET void
lowgraph_let_others_run() {
    lowgraph_wait(lowgraph_give_way());
}
// At each atomic, and in the check build at each read of a volatile: after so many in a row it looks
// like such a loop.
LOWGRAPH_INLINE void lowgraph_polls() {
    lowgraph::ThreadState& state = lowgraph_thread;
    if (state.poller != state.linear) {
        state.poller = state.linear;
        state.polls = 0;
    }
    if (__builtin_expect(++state.polls % 256 == 0, 0)) lowgraph_let_others_run();
}
LOWGRAPH_INLINE void __nanosleep(unsigned) { lowgraph_let_others_run(); }
