// Residual connections, float32. Backward needs no kernel: both inputs receive dout as it is
// (layernorm_backward adds into the branch's gradient).
//
// Shapes: out, residual, x [rows,C]; bias [C].

#include "common/quad.cuh"  // quads

// Overwrites out = a + b, count elements; out may be a or b.
// Launch: block 128, grid ceil(count/512).
extern "C" __global__ void __launch_bounds__(128) residual_add(
    float* out, const float* a, const float* b, long long count)
{
    long long i = ((long long)blockIdx.x * blockDim.x + threadIdx.x) * 4;
    if (i >= count) return;
    int valid = quad_valid(i, count);
    store_quad(out + i, add_quad(load_quad(a + i, valid), load_quad(b + i, valid)), valid);
}

// Overwrites out = residual + (x + bias): a linear layer's bias and the residual connection after
// it in one pass. out may be residual or x.
// Launch: block 128, grid ceil(rows*ceil(C/4)/128).
extern "C" __global__ void __launch_bounds__(128) residual_bias_add(
    float* out, const float* residual, const float* x, const float* __restrict__ bias, int rows,
    int C)
{
    int quads = (C + 3) / 4;
    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x, row = i / quads;
    if (row >= rows) return;
    int c = (int)(i - row * quads) * 4, valid = quad_valid(c, C);
    size_t at = (size_t)row * C + c;
    float4 y = add_quad(load_quad(x + at, valid), load_quad(bias + c, valid));
    store_quad(out + at, add_quad(load_quad(residual + at, valid), y), valid);
}
