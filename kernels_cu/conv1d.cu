// Causal depthwise convolution over time with bias and SiLU, float32 (the short convolution of
// Mamba, Gu and Dao 2023).
//
//   pre[b,t,c] = bias[c] + sum over k of weight[c,k] * x[b,t-(W-1)+k,c],  x is 0 before t = 0
//   y = pre * sigmoid(pre)
//   dpre = dy * (s + pre * s * (1 - s)),  s = sigmoid(pre)
//   dx[b,t,c] = sum over k of weight[c,k] * dpre[b,t+(W-1)-k,c],  dpre is 0 from t = T on
//   dweight[c,k] = sum over b,t of dpre[b,t,c] * x[b,t-(W-1)+k,c],  dbias[c] = sum of dpre[b,t,c]
//
// Shapes: x, y, dx, dy, dpre [B,T,C]; weight, dweight [C,W]; bias, dbias [C]; partial
// [chunks,W+1,C] (the taps, then the bias). x and dx may be columns of a wider matrix: x_row, at
// least C, is the distance of their time steps.
// W is the define CONV_WIDTH, 1 to 8; 4 where it is not given.
// pre is made again in backward: W multiplications cost less than 4 bytes written and read.
// Parameter gradients: a sum for each chunk of rows, then over the chunks in order; no atomics.

#include "common/quad.cuh"     // quads
#include "common/sigmoid.cuh"  // sigmoid_quad, silu_slope_quad
#include "common/unroll.cuh"   // UNROLL

#ifndef CONV_WIDTH
#define CONV_WIDTH 4
#endif
#if CONV_WIDTH < 1 || CONV_WIDTH > 8
#error "conv1d.cu: CONV_WIDTH must be 1 to 8"
#endif

#define TIMES 8  // time steps a thread, so that a row is read 1 + (W-1)/8 times

struct Place {
    int c, valid;      // first of four channels, and how many of them exist
    int t, stop;       // time steps t .. stop-1
    long long row;     // row of (b, 0); negative past the last sequence
};

// The thread's four channels and TIMES time steps.
__device__ __forceinline__ Place place_of(int B, int T, int C)
{
    int quads = (C + 3) / 4, tiles = (T + TIMES - 1) / TIMES;
    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x, tile = i / quads;
    long long b = tile / tiles;
    Place at;
    at.c = (int)(i - tile * quads) * 4;
    at.valid = quad_valid(at.c, C);
    at.t = (int)(tile - b * tiles) * TIMES;
    at.stop = at.t + TIMES < T ? at.t + TIMES : T;
    at.row = b < B ? b * T : -1;
    return at;
}

// taps[k] = weight[c .. c+3, k]; 0 for channels that do not exist.
__device__ __forceinline__ void load_taps(float4* taps, const float* weight, int c, int valid)
{
    UNROLL for (int k = 0; k < CONV_WIDTH; k++) {
        const float* from = weight + (size_t)c * CONV_WIDTH + k;
        taps[k].x = from[0];
        taps[k].y = valid > 1 ? from[CONV_WIDTH] : 0.0f;
        taps[k].z = valid > 2 ? from[2 * CONV_WIDTH] : 0.0f;
        taps[k].w = valid > 3 ? from[3 * CONV_WIDTH] : 0.0f;
    }
}

// Row t of a sequence at `from`, zeros outside of it.
__device__ __forceinline__ float4 load_row(const float* from, int t, int T, int stride, int valid)
{
    return t >= 0 && t < T ? load_quad(from + (long long)t * stride, valid) : same_quad(0.0f);
}

// window[k] = row first + k, for all but the last k.
__device__ __forceinline__ void open_window(
    float4* window, const float* from, int first, int T, int stride, int valid)
{
    UNROLL for (int k = 0; k + 1 < CONV_WIDTH; k++) {
        window[k] = load_row(from, first + k, T, stride, valid);
    }
}

__device__ __forceinline__ void shift_window(float4* window)
{
    UNROLL for (int k = 0; k + 1 < CONV_WIDTH; k++) window[k] = window[k + 1];
}

// Overwrites y.
// Launch: block 128, grid ceil(B*ceil(T/8)*ceil(C/4)/128); four channels and 8 time steps a thread.
extern "C" __global__ void __launch_bounds__(128) conv1d_forward(
    float* __restrict__ y, const float* __restrict__ x, const float* __restrict__ weight,
    const float* __restrict__ bias, int B, int T, int C, int x_row)
{
    Place at = place_of(B, T, C);
    if (at.row < 0) return;
    float4 taps[CONV_WIDTH], window[CONV_WIDTH], offset = load_quad(bias + at.c, at.valid);
    const float* from = x + at.row * x_row + at.c;
    load_taps(taps, weight, at.c, at.valid);
    open_window(window, from, at.t - (CONV_WIDTH - 1), T, x_row, at.valid);
    for (int t = at.t; t < at.stop; t++) {
        window[CONV_WIDTH - 1] = load_row(from, t, T, x_row, at.valid);
        float4 pre = offset;
        UNROLL for (int k = 0; k < CONV_WIDTH; k++) pre = fma_quad(taps[k], window[k], pre);
        float* to = y + (at.row + t) * C + at.c;
        store_quad(to, multiply_quad(pre, sigmoid_quad(pre)), at.valid);
        shift_window(window);
    }
}

// Overwrites dpre; dpre may be dy.
// Launch: as conv1d_forward.
extern "C" __global__ void __launch_bounds__(128) conv1d_backward_pre(
    float* dpre, const float* dy, const float* __restrict__ x, const float* __restrict__ weight,
    const float* __restrict__ bias, int B, int T, int C, int x_row)
{
    Place at = place_of(B, T, C);
    if (at.row < 0) return;
    float4 taps[CONV_WIDTH], window[CONV_WIDTH], offset = load_quad(bias + at.c, at.valid);
    const float* from = x + at.row * x_row + at.c;
    load_taps(taps, weight, at.c, at.valid);
    open_window(window, from, at.t - (CONV_WIDTH - 1), T, x_row, at.valid);
    for (int t = at.t; t < at.stop; t++) {
        window[CONV_WIDTH - 1] = load_row(from, t, T, x_row, at.valid);
        float4 pre = offset;
        UNROLL for (int k = 0; k < CONV_WIDTH; k++) pre = fma_quad(taps[k], window[k], pre);
        long long place = (at.row + t) * C + at.c;
        float4 g = load_quad(dy + place, at.valid);
        store_quad(dpre + place, multiply_quad(g, silu_slope_quad(pre)), at.valid);
        shift_window(window);
    }
}

// Overwrites dx.
// Launch: as conv1d_forward.
extern "C" __global__ void __launch_bounds__(128) conv1d_backward_input(
    float* __restrict__ dx, const float* __restrict__ dpre, const float* __restrict__ weight, int B,
    int T, int C, int x_row)
{
    Place at = place_of(B, T, C);
    if (at.row < 0) return;
    float4 taps[CONV_WIDTH], window[CONV_WIDTH];
    const float* from = dpre + at.row * C + at.c;
    load_taps(taps, weight, at.c, at.valid);
    open_window(window, from, at.t, T, C, at.valid);
    for (int t = at.t; t < at.stop; t++) {
        window[CONV_WIDTH - 1] = load_row(from, t + CONV_WIDTH - 1, T, C, at.valid);
        float4 sum = same_quad(0.0f);
        UNROLL for (int k = 0; k < CONV_WIDTH; k++) {
            sum = fma_quad(taps[CONV_WIDTH - 1 - k], window[k], sum);
        }
        store_quad(dx + (at.row + t) * x_row + at.c, sum, at.valid);
        shift_window(window);
    }
}

// Overwrites partial[chunk] = (dweight's taps, dbias) summed over the chunk's rows of [B*T].
// Launch: block 64, grid (ceil(C/256), chunks); a thread owns four channels; no barrier.
extern "C" __global__ void __launch_bounds__(64) conv1d_backward_partial(
    float* __restrict__ partial, const float* __restrict__ dpre, const float* __restrict__ x,
    int rows, int T, int C, int chunk_rows, int x_row)
{
    int c = (blockIdx.x * blockDim.x + threadIdx.x) * 4;
    if (c >= C) return;
    int valid = quad_valid(c, C);
    long long first = (long long)blockIdx.y * chunk_rows;
    long long last = first + chunk_rows < rows ? first + chunk_rows : rows;
    float4 sums[CONV_WIDTH + 1];
    UNROLL for (int k = 0; k <= CONV_WIDTH; k++) sums[k] = same_quad(0.0f);
    for (long long row = first; row < last; row++) {
        int t = (int)(row % T);
        float4 g = load_quad(dpre + row * C + c, valid);
        UNROLL for (int k = 0; k < CONV_WIDTH; k++) {
            int back = CONV_WIDTH - 1 - k;
            if (t >= back) {
                sums[k] = fma_quad(g, load_quad(x + (row - back) * x_row + c, valid), sums[k]);
            }
        }
        sums[CONV_WIDTH] = add_quad(sums[CONV_WIDTH], g);
    }
    float* to = partial + (size_t)blockIdx.y * (CONV_WIDTH + 1) * C + c;
    UNROLL for (int k = 0; k <= CONV_WIDTH; k++) store_quad(to + (size_t)k * C, sums[k], valid);
}

// Overwrites dweight and dbias with the sums over chunks, or adds them where accumulate is 1.
// Launch: block 64, grid ceil(C/64); a thread owns a channel: its W taps and its bias.
extern "C" __global__ void __launch_bounds__(64) conv1d_backward_final(
    float* __restrict__ dweight, float* __restrict__ dbias, const float* __restrict__ partial,
    int chunks, int C, int accumulate)
{
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= C) return;
    for (int k = 0; k <= CONV_WIDTH; k++) {
        float* to = k < CONV_WIDTH ? dweight + (size_t)c * CONV_WIDTH + k : dbias + c;
        float sum = accumulate ? *to : 0.0f;
        for (int chunk = 0; chunk < chunks; chunk++) {
            sum += partial[((size_t)chunk * (CONV_WIDTH + 1) + k) * C + c];
        }
        *to = sum;
    }
}
