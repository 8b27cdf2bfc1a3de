// Causal depthwise convolution over time with bias and SiLU, float32 (the short convolution of
// Mamba, Gu and Dao 2023).
//
//   pre[b,t,c] = bias[c] + sum over k of weight[c,k] * x[b,t-(W-1)+k,c],  x is 0 before t = 0
//   y = pre * sigmoid(pre)
//   dpre = dy * (s + pre * s * (1 - s)),  s = sigmoid(pre)
//   dx[b,t,c] = sum over k of weight[c,k] * dpre[b,t+(W-1)-k,c],  dpre is 0 from t = T on
//   dweight[c,k] = sum over b,t of dpre[b,t,c] * x[b,t-(W-1)+k,c],  dbias[c] = sum of dpre[b,t,c]
//
// Shapes: x, y, dx, dy [B,T,C]; weight, dweight [C,W]; bias, dbias [C]; partial [chunks,W+1,C] (the
// taps, then the bias). x and dx may be columns of a wider matrix: x_row, at least C, is the
// distance of their time steps.
// W is the define CONV_WIDTH, 1 to 8; 4 where it is not given.
// A block owns 64 channels, and 64 steps of one sequence at a time: its rows, with the W-1 before
// them and in backward after them, lie in shared memory, and pre is made again in backward.
// Parameter gradients: a sum for each block, then over the blocks in order; no atomics.

#include "common/quad.cuh"     // quads
#include "common/sigmoid.cuh"  // sigmoid_quad, silu_slope_quad
#include "common/unroll.cuh"   // UNROLL, IN_FLIGHT

#ifndef CONV_WIDTH
#define CONV_WIDTH 4
#endif
#if CONV_WIDTH < 1 || CONV_WIDTH > 8
#error "conv1d.cu: CONV_WIDTH must be 1 to 8"
#endif

#define STEPS 64   // of a block at a time
#define QUADS 16   // a block's width: 256 neighbouring bytes
#define LANES 16   // threads along time
#define BEFORE (CONV_WIDTH - 1)
#define X_ROWS (STEPS + 2 * BEFORE)
#define G_ROWS (STEPS + BEFORE)

// What a thread is: its four channels from c on, of which `valid` exist, and its lane.
struct Place {
    int quad, lane, c, valid;
};

__device__ __forceinline__ Place place_of(int C)
{
    Place at;
    at.quad = threadIdx.x % QUADS;
    at.lane = threadIdx.x / QUADS;
    at.c = (int)(blockIdx.y * QUADS + at.quad) * 4;
    at.valid = at.c < C ? quad_valid(at.c, C) : 0;
    return at;
}

// The steps of a block's turn: `first` .. first+63 of the sequence that begins at `row`.
struct Steps {
    long long row;
    int first;
    bool exist;
};

__device__ __forceinline__ Steps steps_of(long long turn, int B, int T)
{
    int parts = (T + STEPS - 1) / STEPS;
    Steps steps;
    steps.row = turn / parts * T;
    steps.first = (int)(turn % parts) * STEPS;
    steps.exist = turn < (long long)B * parts;
    return steps;
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

// Row `first` + i of a sequence at `from` into rows[i], i < COUNT; zeros outside of the sequence
// and its channels. All of a thread's loads are on their way before the first is stored.
template <bool WHOLE, int COUNT>
__device__ __forceinline__ void load_rows(
    float4 (*rows)[QUADS], const float* from, int first, int T, int stride, const Place& at)
{
    float4 loaded[(COUNT + LANES - 1) / LANES];
    UNROLL for (int i = 0; i * LANES < COUNT; i++) {
        int row = i * LANES + at.lane, t = first + row;
        bool exists = row < COUNT && t >= 0 && t < T && at.valid;
        loaded[i] = same_quad(0.0f);
        if (exists) loaded[i] = load_quad_of<WHOLE>(from + (long long)t * stride + at.c, at.valid);
    }
    UNROLL for (int i = 0; i * LANES < COUNT; i++) {
        int row = i * LANES + at.lane;
        if (row < COUNT) rows[row][at.quad] = loaded[i];
    }
}

template <int COUNT>
__device__ __forceinline__ void load_either(
    float4 (*rows)[QUADS], const float* from, int first, int T, int stride, int C, const Place& at)
{
    if (C % 4 == 0 && stride % 4 == 0 && quad_aligned(from)) {
        load_rows<true, COUNT>(rows, from, first, T, stride, at);
    } else {
        load_rows<false, COUNT>(rows, from, first, T, stride, at);
    }
}

// The convolution of rows i .. i+W-1, before its SiLU.
__device__ __forceinline__ float4 convolved(
    const float4 (*rows)[QUADS], int i, int quad, const float4* taps, float4 pre)
{
    UNROLL for (int k = 0; k < CONV_WIDTH; k++) pre = fma_quad(taps[k], rows[i + k][quad], pre);
    return pre;
}

// Overwrites y.
// Launch: block 256, grid (B*ceil(T/64), ceil(C/64)).
extern "C" __global__ void __launch_bounds__(256) conv1d_forward(
    float* __restrict__ y, const float* __restrict__ x, const float* __restrict__ weight,
    const float* __restrict__ bias, int B, int T, int C, int x_row)
{
    __shared__ float4 rows[G_ROWS][QUADS];  // from step first - BEFORE on
    Place at = place_of(C);
    Steps steps = steps_of(blockIdx.x, B, T);
    float4 taps[CONV_WIDTH], offset = same_quad(0.0f);
    int begin = steps.first - BEFORE;
    load_either<G_ROWS>(rows, x + steps.row * x_row, begin, T, x_row, C, at);
    if (at.valid) {
        load_taps(taps, weight, at.c, at.valid);
        offset = load_quad(bias + at.c, at.valid);
    }
    __syncthreads();
    if (!at.valid) return;
    for (int i = at.lane; i < STEPS && steps.first + i < T; i += LANES) {
        float4 pre = convolved(rows, i, at.quad, taps, offset);
        float* to = y + (steps.row + steps.first + i) * C + at.c;
        store_quad(to, multiply_quad(pre, sigmoid_quad(pre)), at.valid);
    }
}

struct BackwardWork {
    float4 x[X_ROWS][QUADS];  // from step first - BEFORE on
    float4 g[G_ROWS][QUADS];  // from step first on: dy, then dpre
};

union Work {
    BackwardWork rows;
    float4 sums[CONV_WIDTH + 1][LANES][QUADS];  // each thread's, of the parameters' gradients
};

// Writes dx of the block's steps, and adds them to the thread's sums.
__device__ __forceinline__ void add_steps(
    float4 (&sums)[CONV_WIDTH + 1], BackwardWork& w, float* dx, const float4* taps, float4 offset,
    const Place& at, const Steps& steps, int T, int x_row)
{
    for (int i = at.lane; i < G_ROWS; i += LANES) {
        float4 slope = silu_slope_quad(convolved(w.x, i, at.quad, taps, offset));
        w.g[i][at.quad] = multiply_quad(w.g[i][at.quad], slope);
    }
    __syncthreads();
    for (int i = at.lane; i < STEPS && steps.first + i < T; i += LANES) {
        float4 g = w.g[i][at.quad], sum = same_quad(0.0f);
        UNROLL for (int k = 0; k < CONV_WIDTH; k++) {
            sums[k] = fma_quad(g, w.x[i + k][at.quad], sums[k]);
            sum = fma_quad(taps[CONV_WIDTH - 1 - k], w.g[i + k][at.quad], sum);
        }
        sums[CONV_WIDTH] = add_quad(sums[CONV_WIDTH], g);
        float* to = dx + (steps.row + steps.first + i) * x_row + at.c;
        if (at.valid) store_quad(to, sum, at.valid);
    }
    __syncthreads();
}

// Overwrites dx, and partial[chunk] = (dweight's taps, dbias) summed over the chunk.
// Launch: block 256, grid (chunks, ceil(C/64)); a chunk is `turns` times 64 steps.
extern "C" __global__ void __launch_bounds__(256) conv1d_backward(
    float* __restrict__ dx, float* __restrict__ partial, const float* __restrict__ dy,
    const float* __restrict__ x, const float* __restrict__ weight, const float* __restrict__ bias,
    int B, int T, int C, int x_row, int turns)
{
    __shared__ Work w;
    Place at = place_of(C);
    float4 sums[CONV_WIDTH + 1], taps[CONV_WIDTH], offset = same_quad(0.0f);
    UNROLL for (int k = 0; k <= CONV_WIDTH; k++) sums[k] = same_quad(0.0f);
    UNROLL for (int k = 0; k < CONV_WIDTH; k++) taps[k] = same_quad(0.0f);
    if (at.valid) {
        load_taps(taps, weight, at.c, at.valid);
        offset = load_quad(bias + at.c, at.valid);
    }
    for (int turn = 0; turn < turns; turn++) {
        Steps steps = steps_of((long long)blockIdx.x * turns + turn, B, T);
        if (!steps.exist) break;
        int begin = steps.first - BEFORE;
        load_either<X_ROWS>(w.rows.x, x + steps.row * x_row, begin, T, x_row, C, at);
        load_either<G_ROWS>(w.rows.g, dy + steps.row * C, steps.first, T, C, C, at);
        __syncthreads();
        add_steps(sums, w.rows, dx, taps, offset, at, steps, T, x_row);
    }
    UNROLL for (int k = 0; k <= CONV_WIDTH; k++) w.sums[k][at.lane][at.quad] = sums[k];
    __syncthreads();
    if (at.lane > CONV_WIDTH || !at.valid) return;
    float4 sum = same_quad(0.0f);
    for (int i = 0; i < LANES; i++) sum = add_quad(sum, w.sums[at.lane][i][at.quad]);
    size_t place = (size_t)blockIdx.x * (CONV_WIDTH + 1) + at.lane;
    store_quad(partial + place * C + at.c, sum, at.valid);
}

// Overwrites dweight and dbias with the sums over chunks, or adds them where accumulate is 1.
// Launch: block 64, grid (ceil(C/64), W+1); a thread owns a tap, or the bias, of a channel.
extern "C" __global__ void __launch_bounds__(64) conv1d_backward_final(
    float* __restrict__ dweight, float* __restrict__ dbias, const float* __restrict__ partial,
    int chunks, int C, int accumulate)
{
    int c = blockIdx.x * blockDim.x + threadIdx.x, k = blockIdx.y;
    if (c >= C) return;
    float* to = k < CONV_WIDTH ? dweight + (size_t)c * CONV_WIDTH + k : dbias + c;
    float sum = accumulate ? *to : 0.0f;
    IN_FLIGHT for (int chunk = 0; chunk < chunks; chunk++) {
        sum += partial[((size_t)chunk * (CONV_WIDTH + 1) + k) * C + c];
    }
    *to = sum;
}
