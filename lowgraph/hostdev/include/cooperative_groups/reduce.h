// Reductions over a group of lanes: values are combined in the order of their ranks, so that every
// lane gets the same bits.
#pragma once
#include <cooperative_groups.h>

#include "operators.h"

namespace cooperative_groups {

template <class Group, class T, class Operator>
LOWGRAPH_INLINE T reduce(const Group& group, T value, Operator combine, LOWGRAPH_HERE) {
    T total = group.shfl(value, 0, file, line);
    for (unsigned rank = 1; rank < group.num_threads(); ++rank) {
        total = combine(total, group.shfl(value, (int)rank, file, line));
    }
    return total;
}

}  // namespace cooperative_groups
