// What every group of lanes of one warp offers, by the mask of its lanes: shuffles by rank in the
// group, votes packed to ranks, matches.
#pragma once

#define LOWGRAPH_MEMBER inline __attribute__((always_inline))

namespace cooperative_groups {
namespace details {

// The lane of the rank-th set bit of the mask; the mask has more than `rank` of them.
LOWGRAPH_INLINE unsigned nth_lane(unsigned mask, unsigned rank) {
    for (; rank != 0; --rank) mask &= mask - 1;
    return (unsigned)__builtin_ctz(mask);
}
LOWGRAPH_INLINE unsigned rank_of(unsigned mask, unsigned lane) {
    return (unsigned)__builtin_popcount(mask & ((1u << lane) - 1));
}
// The mask's bits of `lanes`, moved together: bit r belongs to the lane of rank r.
LOWGRAPH_INLINE unsigned packed(unsigned mask, unsigned lanes) {
    unsigned result = 0;
    for (unsigned rank = 0; mask != 0; mask &= mask - 1, ++rank) {
        result |= (lanes >> __builtin_ctz(mask) & 1) << rank;
    }
    return result;
}
// Values of up to 32 bytes go in pieces of 8, as one shuffle each.
template <class T>
LOWGRAPH_INLINE T shuffled(unsigned mask, T value, unsigned lane, const char* file, int line) {
    static_assert(sizeof(T) <= 32, "a group's shuffle moves at most 32 bytes");
    uint64_t words[(sizeof(T) + 7) / 8] = {};
    memcpy(words, static_cast<const void*>(&value), sizeof(T));
    for (uint64_t& word : words) word = lowgraph_shuffle(mask, word, lane, file, line);
    memcpy(static_cast<void*>(&value), words, sizeof(T));
    return value;
}

// Self: has mask(), the lanes of the calling thread's group as bits of its warp, and lane_at(rank).
template <class Self>
class lane_group {
    const Self& self() const { return *static_cast<const Self*>(this); }
    unsigned mask() const { return self().mask(); }
    template <class T>
    LOWGRAPH_MEMBER T from_rank(T value, unsigned rank, const char* file, int line) const {
        if (rank >= num_threads()) {
            lowgraph_trap(719, "a group's shuffle reads from a rank that it has not", file, line);
        }
        return shuffled(mask(), value, self().lane_at(rank), file, line);
    }

public:
    unsigned thread_rank() const { return rank_of(mask(), lowgraph_lane()); }
    unsigned num_threads() const { return (unsigned)__builtin_popcount(mask()); }
    unsigned size() const { return num_threads(); }

    LOWGRAPH_MEMBER void sync(LOWGRAPH_HERE) const { __syncwarp(mask(), file, line); }
    template <class T>
    LOWGRAPH_MEMBER T shfl(T value, int rank, LOWGRAPH_HERE) const {
        return from_rank(value, (unsigned)rank % num_threads(), file, line);
    }
    // A source outside the group is the thread itself.
    template <class T>
    LOWGRAPH_MEMBER T shfl_up(T value, unsigned delta, LOWGRAPH_HERE) const {
        const unsigned own = thread_rank();
        return from_rank(value, delta <= own ? own - delta : own, file, line);
    }
    template <class T>
    LOWGRAPH_MEMBER T shfl_down(T value, unsigned delta, LOWGRAPH_HERE) const {
        const unsigned own = thread_rank();
        return from_rank(value, own + delta < num_threads() ? own + delta : own, file, line);
    }
    LOWGRAPH_MEMBER unsigned ballot(int predicate, LOWGRAPH_HERE) const {
        return packed(mask(), __ballot_sync(mask(), predicate, file, line));
    }
    LOWGRAPH_MEMBER int any(int predicate, LOWGRAPH_HERE) const {
        return __any_sync(mask(), predicate, file, line);
    }
    LOWGRAPH_MEMBER int all(int predicate, LOWGRAPH_HERE) const {
        return __all_sync(mask(), predicate, file, line);
    }
    template <class T>
    LOWGRAPH_MEMBER unsigned match_any(T value, LOWGRAPH_HERE) const {
        return packed(mask(), __match_any_sync(mask(), value, file, line));
    }
    template <class T>
    LOWGRAPH_MEMBER unsigned match_all(T value, int& all_equal, LOWGRAPH_HERE) const {
        return packed(mask(), __match_all_sync(mask(), value, &all_equal, file, line));
    }
};

}  // namespace details
}  // namespace cooperative_groups
