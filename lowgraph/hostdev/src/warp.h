// One warp of a block whose threads have become fibers: who waits where, and how a warp operation
// completes.
#pragma once
#include <cstdint>

#include "../include/cuda_on_host/abi.h"

namespace lowgraph {

struct Warp {
    WarpDelivery delivery;  // first: ThreadState::delivery points here

    // Lanes by state. A lane that exists, has not returned and waits nowhere is ready.
    uint32_t exist, returned, at_operation, at_barrier;
    uint32_t started;  // has run: it has a stack to go on with

    void reset(uint32_t lanes);
    uint32_t ready() const { return exist & ~(returned | at_operation | at_barrier); }

    // A lane comes to an operation of the lanes in mask. True: it was the last one, all have their
    // results.
    bool arrive(uint32_t lane, uint32_t mask, uint64_t value, uint32_t source) {
        const uint32_t bit = 1u << lane;
        same_mask_ = at_operation == 0 || (same_mask_ && mask == common_mask_);
        common_mask_ = mask;
        value_[lane] = value;
        mask_[lane] = mask;
        source_[lane] = static_cast<uint8_t>(source);
        votes_ = source == vote ? votes_ | bit : votes_ & ~bit;
        at_operation |= bit;
        return (needed(mask) & ~at_operation) == 0 && complete(mask);
    }
    // A lane has returned: the operations that waited only for it complete.
    void leave(uint32_t lane);
    uint32_t mask_of(uint32_t lane) const { return mask_[lane]; }
    uint32_t source_of(uint32_t lane) const { return source_[lane]; }

private:
    uint32_t needed(uint32_t mask) const { return mask & exist & ~returned; }
    bool complete(uint32_t mask);
    void deliver(uint32_t lanes);

    uint64_t value_[33];  // what each lane brought; the 33rd is the ballot, so that a vote is a
                          // source like a lane
    uint32_t mask_[32];
    uint8_t source_[32];
    uint32_t votes_;        // lanes whose operation is a vote
    uint32_t common_mask_;  // of all waiting lanes, while same_mask_
    bool same_mask_;        // saves the comparison of 32 masks in the common case
};

}  // namespace lowgraph
