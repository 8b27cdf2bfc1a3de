// Random state on the device: {seed, offset}, 16 bytes. lowgraph/ops/random_state.py holds the same
// layout.
//
// A draw takes counters `offset + first ...` of the generator, four numbers each; `first` is the
// draw's place in its step and the same in every step. random_advance, the last launch of a step,
// moves the offset past all that the step took, so that no counter is used twice.
#pragma once

#include "philox.cuh"

struct RandomState {
    unsigned long long seed;
    unsigned long long offset;
};

static_assert(sizeof(RandomState) == 16, "lowgraph/ops/random_state.py holds the same layout");

// Four 32-bit words of counter number `counter`.
__device__ __forceinline__ Philox random_words(
    unsigned long long seed, unsigned long long counter, unsigned int use)
{
    return philox(counter, 0u, use, seed);
}
