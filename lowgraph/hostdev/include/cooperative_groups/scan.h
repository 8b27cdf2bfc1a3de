// Prefix sums over a group of lanes, in the order of their ranks.
#pragma once
#include <cooperative_groups.h>

#include "operators.h"

namespace cooperative_groups {

template <class Group, class T, class Operator = plus<T>>
LOWGRAPH_INLINE T inclusive_scan(const Group& group, T value, Operator combine = {},
                                 LOWGRAPH_HERE) {
    T total = group.shfl(value, 0, file, line), own = total;
    for (unsigned rank = 1; rank < group.num_threads(); ++rank) {
        total = combine(total, group.shfl(value, (int)rank, file, line));
        if (rank == group.thread_rank()) own = total;
    }
    return own;
}
// Rank 0 gets T{}, as from CUDA's scan of sums.
template <class Group, class T, class Operator = plus<T>>
LOWGRAPH_INLINE T exclusive_scan(const Group& group, T value, Operator combine = {},
                                 LOWGRAPH_HERE) {
    const T through_own = inclusive_scan(group, value, combine, file, line);
    const T before = group.shfl_up(through_own, 1, file, line);
    return group.thread_rank() == 0 ? T{} : before;
}

}  // namespace cooperative_groups
