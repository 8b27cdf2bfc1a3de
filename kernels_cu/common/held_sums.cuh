// Sums over rows of two quantities of each held column (common/held_row.cuh): a norm's gradients of
// weight and bias.
//
// A lane adds the columns that it holds over its rows in registers; at the end the lanes that hold
// the same columns of the block's other rows meet in `room`, and are added in the rows' order.
#pragma once

#include "common/quad.cuh"       // quads
#include "common/row_lanes.cuh"  // ROW_LANES
#include "common/unroll.cuh"     // UNROLL

// What this thread's rows give to the columns it holds.
template <int N>
struct HeldSums {
    float4 weight[N], bias[N];
};

// Adds dy * xhat and dy of one quad.
__device__ __forceinline__ void add_to_sums(
    float4* dweight, float4* dbias, float4 g, float4 q, float mean, float rstd)
{
    dweight->x += g.x * ((q.x - mean) * rstd);
    dweight->y += g.y * ((q.y - mean) * rstd);
    dweight->z += g.z * ((q.z - mean) * rstd);
    dweight->w += g.w * ((q.w - mean) * rstd);
    *dbias = add_quad(*dbias, g);
}

#define ROOM_QUADS 8  // a thread, that meet those of the block's other rows at once

// Overwrites partial[part * C + c] with the sum over the block's rows, in order, of what `room` has
// of `parts` times `held` quads of columns.
__device__ __forceinline__ void add_slots(
    float* partial, const float4* room, int parts, int held, int C)
{
    for (int i = threadIdx.x; i < parts * held * ROW_LANES; i += ROW_THREADS) {
        int part = i / (held * ROW_LANES), c = 4 * (i % (held * ROW_LANES));
        if (c >= C) continue;
        const float4* own = room + i / ROW_LANES * ROW_THREADS + i % ROW_LANES;
        float4 sum = own[0];
        UNROLL for (int slot = 1; slot < BLOCK_ROWS; slot++) {
            sum = add_quad(sum, own[slot * ROW_LANES]);
        }
        store_quad(partial + (size_t)part * C + c, sum, quad_valid(c, C));
    }
}

// partial[c] and partial[C + c] of the held columns.
template <int N>
__device__ __forceinline__ void store_sums(
    float* partial, float4* room, const HeldSums<N>& own, int C)
{
    const int parts = 2 * N <= ROOM_QUADS ? 2 : 1;
    float4* to = room + threadIdx.x;
    UNROLL for (int k = 0; k < N; k++) to[k * ROW_THREADS] = own.weight[k];
    if (parts == 1) {
        __syncthreads();
        add_slots(partial, room, 1, N, C);
        __syncthreads();  // the weight's are done with the room
        partial += C;
    } else {
        to += N * ROW_THREADS;
    }
    UNROLL for (int k = 0; k < N; k++) to[k * ROW_THREADS] = own.bias[k];
    __syncthreads();
    add_slots(partial, room, parts, N, C);
}
