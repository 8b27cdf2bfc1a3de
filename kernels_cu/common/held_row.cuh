// The quads of a row that a lane keeps in registers, so that memory is read once and all of a
// kernel's reads are under way before the first result is needed.
//
// A lane holds its N first quads. What of them lies past the end of the row is a filler, chosen so
// that it changes no result: no later line has to ask what exists. Quads past the N first are read
// where they are needed: TAIL walks them. N is one of two: what is not there costs instructions,
// and each is fetched once a launch.
#pragma once

#include "common/row_lanes.cuh"  // RowLane
#include "common/unroll.cuh"     // UNROLL

// for (TAIL(N, c, me)) ... valid_columns(me, c)
#define TAIL(N, c, me) \
    int c = first_column(me) + (N) * COLUMN_STEP; c < (me).columns; c += COLUMN_STEP

// N for rows of C columns. whole: each of them, and all else that is read or written by columns,
// is whole quads at addresses that allow one access (`quads_aligned`). Of 32 lanes more than four
// quads are held for such rows alone: the other way to read them is long.
#if ROW_LANES == 32
#define FEW_HELD 2
#define MOST_HELD 6
#define HELD_OF(C, whole) ((whole) ? MOST_HELD : FEW_HELD)
#else
#define FEW_HELD 2
#define MOST_HELD 4
#define HELD_OF(C, whole) ((C) <= FEW_HELD * COLUMN_STEP ? FEW_HELD : MOST_HELD)
#endif

// call(N) for that N, which is a constant there.
#define FOR_HELD(C, whole, call) \
    if (HELD_OF(C, whole) == FEW_HELD) { \
        call(FEW_HELD); \
    } else { \
        call(MOST_HELD); \
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

// Whether quads at each of the addresses are moved in one access: those of act_t by 8 bytes.
template <class T>
__device__ __forceinline__ bool quads_aligned(const T* p)
{
    return quad_aligned(p);
}

template <class T, class... More>
__device__ __forceinline__ bool quads_aligned(const T* p, const More*... more)
{
    return quad_aligned(p) && quads_aligned(more...);
}

template <int N, class T>
__device__ __forceinline__ void load_held(
    float4 (&q)[N], const T* row, const RowLane& me, float fill = 0.0f)
{
    if (N > 4 || has_whole_quads(row, me)) {
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
    bool whole = N > 4 || has_whole_quads(row, me);
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
