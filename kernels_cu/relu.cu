// ReLU fused with the bias of the linear layer before it.
//
//   y = max(x + bias, 0);  dx = dy where y > 0, 0 elsewhere;  dbias[c] = sum over rows of dx[r,c]
//
// A NaN stays one, in both directions.
// Shapes: y, dy [rows,C], act_t; bias [C], bias_t; dbias [C], float32 like all that is computed.

#include "common/act.cuh"  // act_t, quads

#ifndef bias_t  // bfloat16 where act_t is, or float
#define bias_t float
#endif

#define ROW_STRIDE 16  // rows that a block walks at once
#define BLOCK_QUADS 8  // of each row: 32 columns, 128 neighbouring bytes

// Turns x, which y holds, into y in place.
// Launch: block 128, grid ceil(rows*ceil(C/4)/128); four columns a thread.
extern "C" __global__ void __launch_bounds__(128) bias_relu_forward(
    act_t* __restrict__ y, const bias_t* __restrict__ bias, int rows, int C)
{
    int quads = (C + 3) / 4;
    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x, row = i / quads;
    if (row >= rows) return;
    int c = (int)(i - row * quads) * 4, valid = quad_valid(c, C);
    act_t* to = y + row * C + c;
    float4 x = add_quad(load_quad(to, valid), load_quad(bias + c, valid));
    x.x = x.x < 0.0f ? 0.0f : x.x;
    x.y = x.y < 0.0f ? 0.0f : x.y;
    x.z = x.z < 0.0f ? 0.0f : x.z;
    x.w = x.w < 0.0f ? 0.0f : x.w;
    store_quad(to, x, valid);
}

// Turns dy into dx in place, and overwrites dbias.
// Launch: block 128, grid ceil(C/32); a thread owns four columns of every sixteenth row.
// One launch in place of three: the sums meet in shared memory and are added in a fixed order.
extern "C" __global__ void __launch_bounds__(128) bias_relu_backward(
    act_t* __restrict__ dy, float* __restrict__ dbias, const act_t* __restrict__ y, int rows, int C)
{
    __shared__ float4 sums[ROW_STRIDE][BLOCK_QUADS];
    int lane = threadIdx.x / BLOCK_QUADS, quad = threadIdx.x % BLOCK_QUADS;
    int c = (blockIdx.x * BLOCK_QUADS + quad) * 4, valid = c < C ? quad_valid(c, C) : 0;
    int end = valid ? rows : 0;

    float4 sum = same_quad(0.0f);
    for (int row = lane; row < end; row += ROW_STRIDE) {
        size_t at = (size_t)row * C + c;
        float4 g = load_quad(dy + at, valid), a = load_quad(y + at, valid);
        g.x = a.x <= 0.0f ? 0.0f : g.x;
        g.y = a.y <= 0.0f ? 0.0f : g.y;
        g.z = a.z <= 0.0f ? 0.0f : g.z;
        g.w = a.w <= 0.0f ? 0.0f : g.w;
        store_quad(dy + at, g, valid);
        sum = add_quad(sum, g);
    }
    sums[lane][quad] = sum;
    __syncthreads();

    if (lane > 0 || valid == 0) return;
    for (int l = 1; l < ROW_STRIDE; l++) sum = add_quad(sum, sums[l][quad]);
    store_quad(dbias + c, sum, valid);
}
