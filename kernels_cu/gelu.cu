// GELU with the tanh approximation (Hendrycks and Gimpel 2016), fused with the bias of the linear
// layer before it.
//
//   gelu(x) = x/2 * (1 + tanh(u)),  u = sqrt(2/pi) * (x + 0.044715 x^3)
//           = x * s,                s = 1 / (1 + exp(-2u))
//   gelu'(x) = s + x * s * (1 - s) * 2u',  u' = sqrt(2/pi) * (1 + 3 * 0.044715 x^2)
//
// The second form needs one exponential, and keeps its relative accuracy for very negative x, where
// 1 + tanh cancels.
// The activation is that of pre before it is rounded to act_t; backward sees it rounded.
// Shapes: pre, activation, dpre, dactivation [rows,C], act_t; bias [C], bias_t.

#include "common/act.cuh"  // act_t, quads

#include "common/gelu.cuh"  // gates and slopes

#ifndef bias_t  // bfloat16 where act_t is, or float
#define bias_t float
#endif

#if IS_BF16(act_t)
#define GATE narrow_gelu_gate
#define SLOPE narrow_gelu_slope
#else
#define GATE gelu_gate
#define SLOPE gelu_slope
#endif

// Adds bias to pre in place (backward needs it) and overwrites activation with gelu(pre).
// Launch: block 128, grid ceil(rows*ceil(C/4)/128); four columns a thread.
extern "C" __global__ void __launch_bounds__(128) bias_gelu_forward(
    act_t* __restrict__ activation, act_t* __restrict__ pre, const bias_t* __restrict__ bias,
    int rows, int C)
{
    int quads = (C + 3) / 4;
    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x, row = i / quads;
    if (row >= rows) return;
    int c = (int)(i - row * quads) * 4, valid = quad_valid(c, C);
    float4 x = add_quad(load_quad(pre + row * C + c, valid), load_quad(bias + c, valid));
    store_quad(pre + row * C + c, x, valid);
    float4 gate = make_float4(GATE(x.x), GATE(x.y), GATE(x.z), GATE(x.w));
    store_quad(activation + row * C + c, multiply_quad(x, gate), valid);
}

// Overwrites dpre = dactivation * gelu'(pre), count elements; dpre may be dactivation.
// Launch: block 128, grid ceil(count/512); four elements a thread.
extern "C" __global__ void __launch_bounds__(128) gelu_backward(
    act_t* dpre, const act_t* dactivation, const act_t* __restrict__ pre, long long count)
{
    long long i = ((long long)blockIdx.x * blockDim.x + threadIdx.x) * 4;
    if (i >= count) return;
    int valid = quad_valid(i, count);
    float4 g = load_quad(dactivation + i, valid), x = load_quad(pre + i, valid);
    x = make_float4(SLOPE(x.x), SLOPE(x.y), SLOPE(x.z), SLOPE(x.w));
    store_quad(dpre + i, multiply_quad(g, x), valid);
}
