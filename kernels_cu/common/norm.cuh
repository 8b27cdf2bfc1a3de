// Layer normalisation of a quad of a row: the formulas of layernorm.cu and layernorm_backward.cu.
#pragma once

#include "common/quad.cuh"  // quads

// Adds a quad's deviations from the pivot, and their squares.
__device__ __forceinline__ void add_deviations(float* sum, float* squares, float4 q, float pivot)
{
    float x = q.x - pivot, y = q.y - pivot, z = q.z - pivot, w = q.w - pivot;
    *sum += (x + y) + (z + w);
    *squares = fmaf(x, x, fmaf(y, y, fmaf(z, z, fmaf(w, w, *squares))));
}

__device__ __forceinline__ float4 normed(
    float4 q, float pivot, float mean, float rstd, float4 w, float4 b)
{
    return make_float4(
        (q.x - pivot - mean) * rstd * w.x + b.x, (q.y - pivot - mean) * rstd * w.y + b.y,
        (q.z - pivot - mean) * rstd * w.z + b.z, (q.w - pivot - mean) * rstd * w.w + b.w);
}

// g, dy times weight, becomes dx.
__device__ __forceinline__ float4 input_gradient(
    float4 g, float4 q, float mean, float rstd, float average_g, float average_gx)
{
    return make_float4(
        rstd * (g.x - average_g - (q.x - mean) * rstd * average_gx),
        rstd * (g.y - average_g - (q.y - mean) * rstd * average_gx),
        rstd * (g.z - average_g - (q.z - mean) * rstd * average_gx),
        rstd * (g.w - average_g - (q.w - mean) * rstd * average_gx));
}

// g * (q - mean); past the end of a row g is 0, so nothing is added there.
__device__ __forceinline__ float moment(float4 g, float4 q, float mean)
{
    return g.x * (q.x - mean) + g.y * (q.y - mean) + g.z * (q.z - mean) + g.w * (q.w - mean);
}
