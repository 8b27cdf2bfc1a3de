// Products of a block's 16 rows with weights that stay with the block, for gated_loop.cu.
//
// With g = lane / 4 and t = lane % 4, warp w's lane owns rows g, g + 8 and columns
// 16 w + 8 j + 2 t, + 1 (j < 2): the fragment of common/mma.cuh.
// The define LOOP_TF32 chooses what factors are rounded to: 1 to TF32, in tensor cores; 0 not at
// all.
#pragma once

#include "common/mma.cuh"     // multiply_add_tf32
#include "common/quad.cuh"    // quads
#include "common/unroll.cuh"  // UNROLL, VECTOR

#ifndef LOOP_TF32
#define LOOP_TF32 0
#endif

#define THREADS 256
#define ROWS 16
#define MOST 128  // columns
#define PITCH(LENGTH) ((LENGTH) + 16)  // so that two rows of quads lie in different banks

struct Lane {
    int g, t, column;  // column: the warp's first
    bool works;        // the warp has columns
};

__device__ __forceinline__ Lane lane_of(int C)
{
    Lane me;
    me.g = threadIdx.x % 32 / 4;
    me.t = threadIdx.x % 4;
    me.column = threadIdx.x / 32 * 16;
    me.works = me.column < C;
    return me;
}

__device__ __forceinline__ int row_of(const Lane& me, int e)
{
    return me.g + e / 2 * 8;
}

// The first of the lane's two columns in its tile j; it exists if that is below C.
__device__ __forceinline__ int column_of(const Lane& me, int j)
{
    return me.column + j * 8 + me.t * 2;
}

// A factor as the product takes it.
__device__ __forceinline__ float factor(float x)
{
#if LOOP_TF32
    return rounded_tf32(x);
#else
    return x;
#endif
}

__device__ __forceinline__ float4 factor_quad(float4 q)
{
    return make_float4(factor(q.x), factor(q.y), factor(q.z), factor(q.w));
}

// A row's pair of factors.
__device__ __forceinline__ void store_factors(float* to, float x, float y)
{
    *reinterpret_cast<float2*>(to) = make_float2(factor(x), factor(y));
}

#if LOOP_TF32

// The weights that a warp multiplies with, each lane its part of the B fragments: of 16 rows of the
// sum from 16 i on, rows 4t .. 4t+3 and column g of tile j. A sum has no order of its own, so two
// products of eight take them pair by pair, and the other factor is read by quads as well.
template <int SIXTEENS, int TILES>
struct Weights {
    float4 quad[SIXTEENS][TILES];
};

__device__ __forceinline__ void load_forward(
    Weights<MOST / 16, 4>& w, const float* weight, const Lane& me, int C)
{
    VECTOR for (int i = 0; i < MOST / 16; i++) {
        UNROLL for (int j = 0; j < 4; j++) {
            int column = me.column + j % 2 * 8 + me.g, k = 16 * i + 4 * me.t;
            const float* from = weight + (size_t)(column + j / 2 * C) * C + k;
            bool exists = column < C && k < C;
            w.quad[i][j] = same_quad(0.0f);
            if (exists) w.quad[i][j] = *reinterpret_cast<const float4*>(from);
        }
    }
    VECTOR for (int i = 0; i < MOST / 16; i++) {
        UNROLL for (int j = 0; j < 4; j++) w.quad[i][j] = factor_quad(w.quad[i][j]);
    }
}

__device__ __forceinline__ void load_backward(
    Weights<MOST / 8, 2>& w, const float* weight, const Lane& me, int C)
{
    VECTOR for (int i = 0; i < MOST / 8; i++) {
        UNROLL for (int j = 0; j < 2; j++) {
            int column = me.column + j * 8 + me.g, k = 16 * i + 4 * me.t;
            const float* from = weight + (size_t)k * C + column;
            w.quad[i][j] = same_quad(0.0f);
            if (column < C && k < 2 * C) {
                w.quad[i][j] = make_float4(from[0], from[C], from[2 * C], from[3 * C]);
            }
        }
    }
    VECTOR for (int i = 0; i < MOST / 8; i++) {
        UNROLL for (int j = 0; j < 2; j++) w.quad[i][j] = factor_quad(w.quad[i][j]);
    }
}

// d += rows times the weights, summed over `length` columns of the rows, which are `pitch` apart.
template <int SIXTEENS, int TILES>
__device__ __forceinline__ void add_product(
    float (&d)[TILES][4], const float* rows, int pitch, const Weights<SIXTEENS, TILES>& w,
    const float*, const Lane& me, int length, int)
{
    const float* from = rows + me.g * pitch + 4 * me.t;
    VECTOR for (int i = 0; i < SIXTEENS; i++) {
        if (16 * i >= length) break;
        float4 upper = *reinterpret_cast<const float4*>(from + 16 * i);
        float4 lower = *reinterpret_cast<const float4*>(from + 8 * pitch + 16 * i);
        float first[4] = {upper.x, lower.x, upper.y, lower.y};
        float second[4] = {upper.z, lower.z, upper.w, lower.w};
        UNROLL for (int j = 0; j < TILES; j++) {
            multiply_add_tf32(d[j], first, w.quad[i][j].x, w.quad[i][j].y);
            multiply_add_tf32(d[j], second, w.quad[i][j].z, w.quad[i][j].w);
        }
    }
}

#else

// Nothing: a warp reads its part of the weights through the cache, as often as it needs them. All
// of them are more than the shared memory of a block on some GPUs.
template <int SIXTEENS, int TILES>
struct Weights {
};

__device__ __forceinline__ void load_forward(
    Weights<MOST / 16, 4>&, const float*, const Lane&, int)
{
}

__device__ __forceinline__ void load_backward(Weights<MOST / 8, 2>&, const float*, const Lane&, int)
{
}

__device__ __forceinline__ float add_dot(float sum, float4 a, float4 b)
{
    return fmaf(a.w, b.w, fmaf(a.z, b.z, fmaf(a.y, b.y, fmaf(a.x, b.x, sum))));
}

// Four numbers of the weights along the sum, for a result's column c.
template <int TILES>
__device__ __forceinline__ float4 along_sum(const float* weight, int k, int c, int C)
{
    if (TILES == 4) return *reinterpret_cast<const float4*>(weight + (size_t)c * C + k);
    const float* from = weight + (size_t)k * C + c;
    return make_float4(from[0], from[C], from[2 * C], from[3 * C]);
}

// As above; forward, of four tiles, the rows of the weights are the columns of the result.
template <int SIXTEENS, int TILES>
__device__ __forceinline__ void add_product(
    float (&d)[TILES][4], const float* rows, int pitch, const Weights<SIXTEENS, TILES>&,
    const float* weight, const Lane& me, int length, int C)
{
    for (int k = 0; k < length; k += 4) {
        float4 upper = *reinterpret_cast<const float4*>(rows + me.g * pitch + k);
        float4 lower = *reinterpret_cast<const float4*>(rows + (me.g + 8) * pitch + k);
        UNROLL for (int j = 0; j < TILES; j++) {
            int c = column_of(me, j % 2);
            if (c >= C) continue;
            UNROLL for (int e = 0; e < 2; e++) {
                float4 right = along_sum<TILES>(weight, k, c + j / 2 * C + e, C);
                d[j][e] = add_dot(d[j][e], upper, right);
                d[j][e + 2] = add_dot(d[j][e + 2], lower, right);
            }
        }
    }
}

#endif

// The lane's four numbers of tile j, a pair of each row: at from[row][column].
__device__ __forceinline__ float2 load_pair(
    const float* from, long long row, int column, int rows, int C, int pitch)
{
    if (row >= rows || column >= C) return make_float2(0.0f, 0.0f);
    return *reinterpret_cast<const float2*>(from + row * pitch + column);
}

__device__ __forceinline__ void store_pair(
    float* to, float x, float y, long long row, int column, int rows, int C, int pitch)
{
    if (row >= rows || column >= C) return;
    *reinterpret_cast<float2*>(to + row * pitch + column) = make_float2(x, y);
}

__device__ __forceinline__ void clear_shared(float* shared, int count)
{
    for (int i = threadIdx.x; i < count; i += THREADS) shared[i] = 0.0f;
    __syncthreads();
}
