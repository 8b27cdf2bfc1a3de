// Cooperative groups, the part that one block needs: the block and tiles of a warp. Grid-wide and
// multi-device groups are not here: a kernel that names them does not compile for the host device.
#pragma once

namespace cooperative_groups {

class thread_block {
public:
    static unsigned thread_rank() { return lowgraph_thread.linear; }
    static unsigned size() { return lowgraph_thread.threads; }
    static unsigned num_threads() { return lowgraph_thread.threads; }
    static uint3 thread_index() { return threadIdx; }
    static uint3 group_index() { return blockIdx; }
    LOWGRAPH_INLINE void sync(LOWGRAPH_HERE) { __syncthreads(file, line); }
};
inline thread_block this_thread_block() { return {}; }
template <class Group>
LOWGRAPH_INLINE void sync(const Group&, LOWGRAPH_HERE) {
    Group::sync(file, line);
}

// `lanes` neighbouring lanes: 1, 2, 4, 8, 16 or 32.
template <unsigned lanes>
class thread_block_tile {
    static_assert(lanes != 0 && lanes <= 32 && (lanes & (lanes - 1)) == 0);

    static unsigned first_lane() { return lowgraph_lane() / lanes * lanes; }
    static unsigned mask() { return (lanes == 32 ? ~0u : (1u << lanes % 32) - 1) << first_lane(); }

public:
    static unsigned thread_rank() { return lowgraph_thread.linear % lanes; }
    static unsigned meta_group_rank() { return lowgraph_thread.linear / lanes; }
    static unsigned meta_group_size() { return (lowgraph_thread.threads + lanes - 1) / lanes; }
    static constexpr unsigned size() { return lanes; }
    static constexpr unsigned num_threads() { return lanes; }

    LOWGRAPH_INLINE void sync(LOWGRAPH_HERE) { __syncwarp(mask(), file, line); }
    template <class T>
    LOWGRAPH_INLINE T shfl(T value, int source, LOWGRAPH_HERE) {
        return __shfl_sync(mask(), value, source, lanes, file, line);
    }
    template <class T>
    LOWGRAPH_INLINE T shfl_up(T value, unsigned delta, LOWGRAPH_HERE) {
        return __shfl_up_sync(mask(), value, delta, lanes, file, line);
    }
    template <class T>
    LOWGRAPH_INLINE T shfl_down(T value, unsigned delta, LOWGRAPH_HERE) {
        return __shfl_down_sync(mask(), value, delta, lanes, file, line);
    }
    template <class T>
    LOWGRAPH_INLINE T shfl_xor(T value, unsigned lane_mask, LOWGRAPH_HERE) {
        return __shfl_xor_sync(mask(), value, (int)lane_mask, lanes, file, line);
    }
    LOWGRAPH_INLINE unsigned ballot(int predicate, LOWGRAPH_HERE) {
        return __ballot_sync(mask(), predicate, file, line) >> first_lane();
    }
    LOWGRAPH_INLINE int any(int predicate, LOWGRAPH_HERE) {
        return __any_sync(mask(), predicate, file, line);
    }
    LOWGRAPH_INLINE int all(int predicate, LOWGRAPH_HERE) {
        return __all_sync(mask(), predicate, file, line);
    }
};
template <unsigned lanes, class Group>
thread_block_tile<lanes> tiled_partition(const Group&) {
    return {};
}

}  // namespace cooperative_groups
