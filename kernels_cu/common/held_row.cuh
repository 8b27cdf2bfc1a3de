// The quads of a row that a lane keeps in registers, so that memory is read once and all of a
// kernel's reads are under way before the first result is needed.
//
// A lane holds its N first quads. What of them lies past the end of the row is a filler, chosen so
// that it changes no result: no later line has to ask what exists. Quads past the N first are read
// where they are needed: TAIL walks them. N is a row's own number where that is 2, else 4: what is
// not there costs instructions, and each is fetched once a launch.
#pragma once

#include "common/row_lanes.cuh"  // RowLane
#include "common/unroll.cuh"     // UNROLL

// for (TAIL(N, c, me)) ... valid_columns(me, c)
#define TAIL(N, c, me) \
    int c = first_column(me) + (N) * COLUMN_STEP; c < (me).columns; c += COLUMN_STEP

// call(N) for the N that suits rows of C columns.
#define FOR_HELD(C, call) \
    if ((C) <= 2 * COLUMN_STEP) { \
        call(2); \
    } else { \
        call(4); \
    }

// The quad at p; elements from `valid` on are fill.
template <class T>
__device__ __forceinline__ float4 filled_quad(const T* p, int valid, float fill)
{
    float4 q = load_quad(p, valid);
    return make_float4(
        q.x, valid > 1 ? q.y : fill, valid > 2 ? q.z : fill, valid > 3 ? q.w : fill);
}

template <class T>
__device__ __forceinline__ bool has_whole_quads(const T* row, const RowLane& me)
{
    return me.columns % 4 == 0 && quad_aligned(row);
}

template <int N, class T>
__device__ __forceinline__ void load_held(
    float4 (&q)[N], const T* row, const RowLane& me, float fill = 0.0f)
{
    if (has_whole_quads(row, me)) {
        UNROLL for (int k = 0; k < N; k++) {
            int c = first_column(me) + k * COLUMN_STEP;
            q[k] = c < me.columns ? load_whole_quad(row + c) : same_quad(fill);
        }
        return;
    }
    UNROLL for (int k = 0; k < N; k++) {
        int c = first_column(me) + k * COLUMN_STEP;
        q[k] = same_quad(fill);
        if (c < me.columns) q[k] = filled_quad(row + c, valid_columns(me, c), fill);
    }
}

template <int N, class T>
__device__ __forceinline__ void store_held(T* row, const float4 (&q)[N], const RowLane& me)
{
    bool whole = has_whole_quads(row, me);
    UNROLL for (int k = 0; k < N; k++) {
        int c = first_column(me) + k * COLUMN_STEP;
        if (c >= me.columns) continue;
        if (whole) {
            store_whole_quad(row + c, q[k]);
        } else {
            store_quad(row + c, q[k], valid_columns(me, c));
        }
    }
}

// Sums of two numbers over the lanes of a row, after one barrier that all threads of the block come
// to; in lane order, the same bits in all lanes.
__device__ __forceinline__ float2 row_sums(
    float4 (&shared)[BLOCK_ROWS][ROW_LANES / 2], const RowLane& me, float first, float second)
{
    float2* own = reinterpret_cast<float2*>(shared[me.slot]) + me.lane;
    *own = make_float2(first, second);
    __syncthreads();
    float2 sum = make_float2(0.0f, 0.0f);
    UNROLL for (int l = 0; l < ROW_LANES / 2; l++) {
        float4 pair = shared[me.slot][l];
        sum.x = sum.x + pair.x + pair.z;
        sum.y = sum.y + pair.y + pair.w;
    }
    return sum;
}
