#include "warp.h"

#include "watcher.h"

namespace lowgraph {

void Warp::reset(uint32_t lanes) {
    exist = lanes;
    returned = at_operation = at_barrier = started = votes_ = 0;
    common_mask_ = 0;
    same_mask_ = true;
}

void Warp::leave(uint32_t lane) {
    returned |= 1u << lane;
    // Operations with different masks can wait at the same time; each may have lacked this lane
    // alone.
    for (uint32_t rest = at_operation; rest != 0;) {
        const uint32_t mask = mask_[__builtin_ctz(rest)];
        rest &= rest - 1;
        if (complete(mask)) rest &= at_operation;
    }
}

// An operation is complete when every lane of its mask that has not returned waits with that same
// mask.
bool Warp::complete(uint32_t mask) {
    const uint32_t lanes = needed(mask);
    if ((lanes & ~at_operation) != 0) return false;
    if (!same_mask_) {
        for (uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
            if (mask_[__builtin_ctz(rest)] != mask) return false;
        }
    }
    if (watched()) watcher->operation_completes(*lowgraph_thread.runner, *this, lanes);
    deliver(lanes);
    at_operation &= ~lanes;
    return true;
}

// Results are worked out for every lane here: a released lane may reach its next operation, and
// overwrite what it brought to this one, before the others have run again.
void Warp::deliver(uint32_t lanes) {
    uint64_t ballot = 0;
    for (uint32_t rest = lanes & votes_; rest != 0; rest &= rest - 1) {
        const int lane = __builtin_ctz(rest);
        ballot |= (value_[lane] & 1) << lane;
    }
    value_[vote] = ballot;
    if (lanes == ~0u) {
        for (int lane = 0; lane < 32; ++lane) {
            delivery.result[lane] = value_[source_[lane]];
            delivery.members[lane] = lanes;
        }
        return;
    }
    for (uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
        const int lane = __builtin_ctz(rest);
        delivery.result[lane] = value_[source_[lane]];
        delivery.members[lane] = lanes;
    }
}

}  // namespace lowgraph
