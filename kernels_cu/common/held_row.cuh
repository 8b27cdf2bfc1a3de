// The quads of a row that a lane keeps in registers, so that memory is read once and all of a
// kernel's reads are under way before the first result is needed.
//
// Quads past the HELD first of a lane (rows longer than HELD * COLUMN_STEP) are read again where
// they are needed: TAIL walks them.
#pragma once

#include "common/row_lanes.cuh"  // RowLane
#include "common/unroll.cuh"     // UNROLL

#define HELD 4

// for (TAIL(c, me)) ... valid_columns(me, c)
#define TAIL(c, me) \
    int c = first_column(me) + HELD * COLUMN_STEP; c < (me).columns; c += COLUMN_STEP

__device__ __forceinline__ int held_column(const RowLane& me, int k)
{
    return first_column(me) + k * COLUMN_STEP;
}

// How many of quad k's elements exist, 0 to 4.
__device__ __forceinline__ int held_valid(const RowLane& me, int k)
{
    int c = held_column(me, k);
    return c < me.columns ? valid_columns(me, c) : 0;
}

template <bool WHOLE, class T>
__device__ __forceinline__ void load_quads(float4 (&q)[HELD], const T* row, const RowLane& me)
{
    UNROLL for (int k = 0; k < HELD; k++) {
        q[k] = quad_or_zeros<WHOLE>(row + held_column(me, k), held_valid(me, k));
    }
}

// Zeros where nothing exists.
template <class T>
__device__ __forceinline__ void load_held(float4 (&q)[HELD], const T* row, const RowLane& me)
{
    if (me.columns % 4 == 0 && quad_aligned(row)) {
        load_quads<true>(q, row, me);
    } else {
        load_quads<false>(q, row, me);
    }
}

template <class T>
__device__ __forceinline__ void store_held(T* row, const float4 (&q)[HELD], const RowLane& me)
{
    UNROLL for (int k = 0; k < HELD; k++) {
        int valid = held_valid(me, k);
        if (valid) store_quad(row + held_column(me, k), q[k], valid);
    }
}
