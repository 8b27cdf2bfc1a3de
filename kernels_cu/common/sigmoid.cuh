// The logistic function and what is made of it: SiLU (x times it) and the slope of SiLU.
#pragma once

#include "common/quad.cuh"  // quads

__device__ __forceinline__ float sigmoid(float x)
{
    return 1.0f / (1.0f + expf(-x));  // if that overflows to infinity, the result is 0
}

// d(x sigmoid(x))/dx
__device__ __forceinline__ float silu_slope(float x)
{
    float s = sigmoid(x);
    return s + x * s * (1.0f - s);
}

__device__ __forceinline__ float4 sigmoid_quad(float4 q)
{
    return make_float4(sigmoid(q.x), sigmoid(q.y), sigmoid(q.z), sigmoid(q.w));
}

__device__ __forceinline__ float4 silu_slope_quad(float4 q)
{
    return make_float4(silu_slope(q.x), silu_slope(q.y), silu_slope(q.z), silu_slope(q.w));
}
