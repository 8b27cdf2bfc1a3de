// Groups of lanes: tiles of fixed size, the lanes that run together, and partitions by a label.
#pragma once

namespace cooperative_groups {

// `lanes` neighbouring lanes: 1, 2, 4, 8, 16 or 32. Parent: what the tile was cut from.
template <unsigned lanes, class Parent = void>
class thread_block_tile;

template <unsigned lanes>
class thread_block_tile<lanes, void> : public details::lane_group<thread_block_tile<lanes, void>> {
    static_assert(lanes != 0 && lanes <= 32 && (lanes & (lanes - 1)) == 0,
                  "the host device has tiles of 1, 2, 4, 8, 16 and 32 lanes");

public:
    static unsigned first_lane() { return lowgraph_lane() / lanes * lanes; }
    static unsigned mask() { return (lanes == 32 ? ~0u : (1u << lanes % 32) - 1) << first_lane(); }
    static unsigned lane_at(unsigned rank) { return first_lane() + rank; }
    static unsigned thread_rank() { return lowgraph_thread.linear % lanes; }
    static unsigned meta_group_rank() { return lowgraph_thread.linear / lanes; }
    static unsigned meta_group_size() { return (lowgraph_thread.threads + lanes - 1) / lanes; }
    static constexpr unsigned size() { return lanes; }
    static constexpr unsigned num_threads() { return lanes; }

    template <class T>
    LOWGRAPH_MEMBER T shfl_xor(T value, unsigned lane_mask, LOWGRAPH_HERE) const {
        return this->shfl(value, (int)(thread_rank() ^ lane_mask), file, line);
    }
};
template <unsigned lanes, class Parent>
class thread_block_tile : public thread_block_tile<lanes, void> {};
template <unsigned lanes, unsigned parent_lanes, class Parent>
class thread_block_tile<lanes, thread_block_tile<parent_lanes, Parent>>
    : public thread_block_tile<lanes, void> {
    static_assert(lanes <= parent_lanes, "a tile is cut from a tile at least as large");

public:
    static unsigned meta_group_rank() { return lowgraph_thread.linear % parent_lanes / lanes; }
    static constexpr unsigned meta_group_size() { return parent_lanes / lanes; }
};
template <unsigned lanes, class Parent>
    requires(lanes <= 32)
thread_block_tile<lanes, Parent> tiled_partition(const Parent&) {
    return {};
}

// Any lanes of one warp.
class coalesced_group : public details::lane_group<coalesced_group> {
    unsigned mask_, label_ = 0, labels_ = 1;

public:
    explicit coalesced_group(unsigned mask, unsigned label = 0, unsigned labels = 1)
        : mask_(mask), label_(label), labels_(labels) {}
    unsigned mask() const { return mask_; }
    unsigned lane_at(unsigned rank) const { return details::nth_lane(mask_, rank); }
    unsigned meta_group_rank() const { return label_; }
    unsigned meta_group_size() const { return labels_; }
};
// Threads run one at a time here, so the lanes that run together are the caller alone: one of the
// outcomes that a GPU may have, too.
inline coalesced_group coalesced_threads() { return coalesced_group(__activemask()); }

template <class Group>
LOWGRAPH_INLINE coalesced_group binary_partition(const Group& group, bool part, LOWGRAPH_HERE) {
    const unsigned yes = __ballot_sync(group.mask(), part, file, line);
    return coalesced_group(part ? yes : group.mask() & ~yes, part ? 0 : 1, 2);
}
template <class Group, class Label>
LOWGRAPH_INLINE coalesced_group labeled_partition(const Group& group, Label label, LOWGRAPH_HERE) {
    return coalesced_group(__match_any_sync(group.mask(), label, file, line));
}

template <class Group>
LOWGRAPH_INLINE void sync(const Group& group, LOWGRAPH_HERE) {
    group.sync(file, line);
}

}  // namespace cooperative_groups
