// Bias of a linear layer: y[r,c] += bias[c], and its gradient dbias[c] = sum over rows of dy[r,c].
//
// Shapes: y, dy [rows,C], act_t; bias [C], bias_t; dbias [C], partial [chunks,C], float32 like all
// that is computed.

#include "common/act.cuh"     // act_t, quads
#include "common/unroll.cuh"  // IN_FLIGHT

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
