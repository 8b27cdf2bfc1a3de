// Bias of a linear layer: y[r,c] += bias[c], and its gradient dbias[c] = sum over rows of dy[r,c].
//
// Shapes: y, dy [rows,C], act_t; bias [C], bias_t; dbias [C], partial [chunks,C], float32 like all
// that is computed.

#include "common/act.cuh"     // act_t, quads
#include "common/unroll.cuh"  // IN_FLIGHT, UNROLL

#ifndef bias_t  // bfloat16 where act_t is, or float
#define bias_t float
#endif

// Adds bias to y in place.
// Launch: block 128, grid ceil(rows*ceil(C/4)/128); four columns a thread.
extern "C" __global__ void __launch_bounds__(128) bias_add(
    act_t* __restrict__ y, const bias_t* __restrict__ bias, int rows, int C)
{
    int quads = (C + 3) / 4;
    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x, row = i / quads;
    if (row >= rows) return;
    int c = (int)(i - row * quads) * 4, valid = quad_valid(c, C);
    act_t* to = y + row * C + c;
    store_quad(to, add_quad(load_quad(to, valid), load_quad(bias + c, valid)), valid);
}

template <bool WHOLE>
__device__ __forceinline__ float4 sum_rows(
    const act_t* dy, long long first, long long last, int C, int valid)
{
    float4 sum = same_quad(0.0f);
    IN_FLIGHT for (long long row = first; row < last; row++) {
        sum = add_quad(sum, load_quad_of<WHOLE>(dy + row * C, valid));
    }
    return sum;
}

// Overwrites partial[chunk] with the column sums over the chunk's rows, added in row order.
// Launch: block 64, grid (ceil(C/256), chunks); a thread owns four columns; no barrier.
extern "C" __global__ void __launch_bounds__(64) column_sum_partial(
    float* __restrict__ partial, const act_t* __restrict__ dy, int rows, int C, int chunk_rows)
{
    int c = (blockIdx.x * blockDim.x + threadIdx.x) * 4;
    if (c >= C) return;
    int valid = quad_valid(c, C);
    long long first = (long long)blockIdx.y * chunk_rows;
    long long last = first + chunk_rows < rows ? first + chunk_rows : rows;
    bool whole = valid == 4 && C % 4 == 0 && quad_aligned(dy + c);
    float4 sum = whole ? sum_rows<true>(dy + c, first, last, C, valid)
                       : sum_rows<false>(dy + c, first, last, C, valid);
    store_quad(partial + (size_t)blockIdx.y * C + c, sum, valid);
}

// Overwrites dbias with the sums over chunks, in chunk order, or adds them where accumulate is 1.
// Launch: block 64, grid ceil(C/64).
extern "C" __global__ void __launch_bounds__(64) column_sum_final(
    float* __restrict__ dbias, const float* __restrict__ partial, int chunks, int C, int accumulate)
{
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= C) return;
    float sum = accumulate ? dbias[c] : 0.0f;
    IN_FLIGHT for (int chunk = 0; chunk < chunks; chunk++) sum += partial[(size_t)chunk * C + c];
    dbias[c] = sum;
}

// ---- the biases of several layers, by columns of one partial [chunks,stride] ----
#define QUADS 16  // a block's width: 64 columns
#define LANES 16
#define READS 8  // rows that a thread reads before it adds the first

// A lane's rows of the chunk: every sixteenth.
template <bool WHOLE>
__device__ __forceinline__ float4 lane_sum(
    const act_t* dy, long long first, long long last, int C, int valid)
{
    float4 sum = same_quad(0.0f);
    for (long long top = first; top < last; top += READS * LANES) {
        float4 found[READS];
        UNROLL for (int u = 0; u < READS; u++) {
            long long row = top + u * LANES;
            found[u] = row < last ? load_quad_of<WHOLE>(dy + row * C, valid) : same_quad(0.0f);
        }
        UNROLL for (int u = 0; u < READS; u++) sum = add_quad(sum, found[u]);
    }
    return sum;
}

// Overwrites columns 0 .. C+D-1 of partial's row of the chunk with the sums over the chunk's rows
// of the columns of dy [rows,C], and behind them those of dz [rows,D].
// Launch: block 256, grid (ceil(C/64)+ceil(D/64), chunks); C or D may be 0.
extern "C" __global__ void __launch_bounds__(256) bias_pair_partial(
    float* __restrict__ partial, const act_t* __restrict__ dy, const act_t* __restrict__ dz,
    int rows, int C, int D, int chunk_rows, int stride)
{
    __shared__ float4 sums[LANES][QUADS];
    int quad = threadIdx.x % QUADS, lane = threadIdx.x / QUADS;
    int c = (blockIdx.x * QUADS + quad) * 4, columns = C, before = 0;
    int of_dy = (C + QUADS * 4 - 1) / (QUADS * 4);
    const act_t* from = dy;
    if ((int)blockIdx.x >= of_dy) {
        c -= of_dy * QUADS * 4;
        columns = D;
        before = C;
        from = dz;
    }
    int valid = c < columns ? quad_valid(c, columns) : 0;
    long long first = (long long)blockIdx.y * chunk_rows, last = first + chunk_rows;
    if (last > rows) last = rows;
    float4 sum = same_quad(0.0f);
    if (valid) {
        bool whole = valid == 4 && columns % 4 == 0 && quad_aligned(from);
        sum = whole ? lane_sum<true>(from + c, first + lane, last, columns, valid)
                    : lane_sum<false>(from + c, first + lane, last, columns, valid);
    }
    sums[lane][quad] = sum;
    __syncthreads();
    if (lane > 0 || !valid) return;
    UNROLL for (int l = 1; l < LANES; l++) sum = add_quad(sum, sums[l][quad]);
    store_quad(partial + (size_t)blockIdx.y * stride + before + c, sum, valid);
}

#define FINAL_COLUMNS 64
#define FINAL_GROUPS 4

// Overwrites gradients[places[c]] with the sum over chunks of partial [chunks,columns].
// Launch: block 256, grid ceil(columns/64): a thread adds every fourth chunk of a column, then the
// four sums are added in order.
extern "C" __global__ void __launch_bounds__(256) bias_sums_final(
    float* __restrict__ gradients, const float* __restrict__ partial,
    const int* __restrict__ places, int chunks, int columns)
{
    __shared__ float sums[FINAL_GROUPS][FINAL_COLUMNS];
    int own = threadIdx.x % FINAL_COLUMNS, group = threadIdx.x / FINAL_COLUMNS;
    int c = blockIdx.x * FINAL_COLUMNS + own, last = c < columns ? chunks : 0;
    int place = c < columns ? places[c] : 0;
    float sum = 0.0f;
    for (int top = group; top < last; top += READS * FINAL_GROUPS) {
        float found[READS];
        UNROLL for (int u = 0; u < READS; u++) {
            int chunk = top + u * FINAL_GROUPS;
            found[u] = chunk < last ? partial[(size_t)chunk * columns + c] : 0.0f;
        }
        UNROLL for (int u = 0; u < READS; u++) sum += found[u];
    }
    sums[group][own] = sum;
    __syncthreads();
    if (group > 0 || c >= columns) return;
    UNROLL for (int other = 1; other < FINAL_GROUPS; other++) sum += sums[other][own];
    gradients[place] = sum;
}
