// A flat array walked by blocks of 128 threads, `QUADS` quads a thread in one turn.
//
// A block's turn is QUADS * 512 neighbouring elements, a thread's quads lie 512 apart in it: each
// access of a warp is 512 neighbouring bytes, and all loads of a turn are on their way before the
// first is needed. `whole` says that the turn lies before the array's end n and the array at a
// multiple of 16 bytes; else elements past the end read as 0 and are not written.
#pragma once

#include "common/quad.cuh"    // quads
#include "common/unroll.cuh"  // UNROLL

#define TURN_THREADS 128  // block
#define TURN_ELEMENTS(QUADS) ((QUADS) * TURN_THREADS * 4)

// Of this thread's quad k of the turn that begins at `first`.
__device__ __forceinline__ long long turn_place(long long first, int k)
{
    return first + (k * TURN_THREADS + (int)threadIdx.x) * 4;
}

template <int QUADS>
__device__ __forceinline__ void load_turn(
    float4 (&q)[QUADS], const float* p, long long first, long long n, bool whole)
{
    UNROLL for (int k = 0; k < QUADS; k++) {
        long long i = turn_place(first, k);
        if (whole) {
            q[k] = *reinterpret_cast<const float4*>(p + i);
        } else {
            q[k] = i < n ? load_quad(p + i, quad_valid(i, n)) : same_quad(0.0f);
        }
    }
}

template <int QUADS>
__device__ __forceinline__ void store_turn(
    float* p, const float4 (&q)[QUADS], long long first, long long n, bool whole)
{
    UNROLL for (int k = 0; k < QUADS; k++) {
        long long i = turn_place(first, k);
        if (whole) {
            *reinterpret_cast<float4*>(p + i) = q[k];
        } else if (i < n) {
            store_quad(p + i, q[k], quad_valid(i, n));
        }
    }
}
