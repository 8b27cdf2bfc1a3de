// A linear layer with one output, float32: y[r] = x[r] . weight + bias.
//
//   dx[r,c] = dy[r] weight[c],  dweight[c] = sum over rows of dy[r] x[r,c],  dbias = sum of dy[r]
//
// Shapes: x, dx [rows,C]; y, dy [rows]; weight, dweight [C]; bias, dbias [1]; partial [chunks,C]
// and behind it [chunks]: the sums over each chunk of rows, added up in order; no atomics.

#include "common/quad.cuh"    // quads
#include "common/unroll.cuh"  // UNROLL, IN_FLIGHT

#define THREADS 256
#define LANES 16                      // threads a row, forward
#define BLOCK_ROWS (THREADS / LANES)
#define QUADS 32                      // a block's width in backward: 128 columns
#define ROW_THREADS (THREADS / QUADS)

__device__ __forceinline__ bool whole_rows(const float* from, int C)
{
    return C % 4 == 0 && quad_aligned(from);
}

// A lane's part of a row's product.
template <bool WHOLE>
__device__ __forceinline__ float part_of(const float* x, const float* weight, int lane, int C)
{
    float sum = 0.0f;
    for (int c = lane * 4; c < C; c += LANES * 4) {
        int valid = quad_valid(c, C);
        float4 a = load_quad_of<WHOLE>(x + c, valid), b = load_quad_of<WHOLE>(weight + c, valid);
        sum += dot_quad(a, b);
    }
    return sum;
}

// Overwrites y.
// Launch: block 256, grid ceil(rows/16).
extern "C" __global__ void __launch_bounds__(256) readout_forward(
    float* __restrict__ y, const float* __restrict__ x, const float* __restrict__ weight,
    const float* __restrict__ bias, int rows, int C)
{
    __shared__ float parts[LANES][BLOCK_ROWS];
    int slot = threadIdx.x / LANES, lane = threadIdx.x % LANES;
    long long first = (long long)blockIdx.x * BLOCK_ROWS, row = first + slot;
    float part = 0.0f;
    if (row < rows) {
        const float* from = x + row * C;
        bool whole = whole_rows(x, C) && quad_aligned(weight);
        part = whole ? part_of<true>(from, weight, lane, C) : part_of<false>(from, weight, lane, C);
    }
    parts[lane][slot] = part;
    __syncthreads();
    int own = threadIdx.x;
    if (own >= BLOCK_ROWS || first + own >= rows) return;
    float sum = bias[0];
    UNROLL for (int l = 0; l < LANES; l++) sum += parts[l][own];
    y[first + own] = sum;
}

// Walks a thread's rows: writes dx, and returns its sums of dweight and, in dbias, of dy.
template <bool WHOLE>
__device__ __forceinline__ float4 walk_rows(
    float* dx, const float* dy, const float* x, float4 weight, long long first, long long last,
    int C, int valid, float& dbias)
{
    float4 sum = same_quad(0.0f);
    for (long long row = first; row < last; row += ROW_THREADS) {
        float g = dy[row];
        float4 own = load_quad_of<WHOLE>(x + row * C, valid);
        sum = fma_quad(same_quad(g), own, sum);
        dbias += g;
        store_quad(dx + row * C, multiply_quad(same_quad(g), weight), valid);
    }
    return sum;
}

// Overwrites dx and partial.
// Launch: block 256, grid (chunks, ceil(C/128)).
extern "C" __global__ void __launch_bounds__(256) readout_backward(
    float* __restrict__ dx, float* __restrict__ partial, const float* __restrict__ dy,
    const float* __restrict__ x, const float* __restrict__ weight, int rows, int C, int chunk_rows)
{
    __shared__ float4 sums[ROW_THREADS][QUADS];
    __shared__ float totals[ROW_THREADS];
    int quad = threadIdx.x % QUADS, lane = threadIdx.x / QUADS;
    int c = (int)(blockIdx.y * QUADS + quad) * 4, valid = c < C ? quad_valid(c, C) : 0;
    long long first = (long long)blockIdx.x * chunk_rows, last = first + chunk_rows;
    if (last > rows) last = rows;
    float dbias = 0.0f;
    float4 sum = same_quad(0.0f);
    if (valid) {
        float4 scale = load_quad(weight + c, valid);
        sum = whole_rows(x, C)
                  ? walk_rows<true>(dx + c, dy, x + c, scale, first + lane, last, C, valid, dbias)
                  : walk_rows<false>(dx + c, dy, x + c, scale, first + lane, last, C, valid, dbias);
    }
    sums[lane][quad] = sum;
    if (quad == 0) totals[lane] = dbias;
    __syncthreads();
    if (lane > 0 || !valid) return;
    UNROLL for (int l = 1; l < ROW_THREADS; l++) sum = add_quad(sum, sums[l][quad]);
    store_quad(partial + (size_t)blockIdx.x * C + c, sum, valid);
    if (c > 0) return;
    UNROLL for (int l = 1; l < ROW_THREADS; l++) dbias += totals[l];
    partial[(size_t)gridDim.x * C + blockIdx.x] = dbias;
}

// Overwrites dweight and dbias with the sums over chunks, or adds them where accumulate is 1.
// Launch: block 64, grid ceil((C+1)/64); a thread owns a column, the one behind the last dbias.
extern "C" __global__ void __launch_bounds__(64) readout_backward_final(
    float* __restrict__ dweight, float* __restrict__ dbias, const float* __restrict__ partial,
    int chunks, int C, int accumulate)
{
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c > C) return;
    float* to = c < C ? dweight + c : dbias;
    const float* from = c < C ? partial + c : partial + (size_t)chunks * C;
    int stride = c < C ? C : 1;
    float sum = accumulate ? *to : 0.0f;
    IN_FLIGHT for (int chunk = 0; chunk < chunks; chunk++) sum += from[(size_t)chunk * stride];
    *to = sum;
}
