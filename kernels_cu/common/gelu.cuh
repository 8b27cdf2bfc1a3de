// GELU with the tanh approximation: gelu(x) = x * gelu_gate(x), and its derivative; gelu.cu has the
// formulas.
#pragma once

#include "common/approximate.cuh"  // power_of_two, reciprocal

#define ROOT_2_OVER_PI 0.7978845608028654f
#define CUBIC 0.044715f

__device__ __forceinline__ float gelu_gate(float x)
{
    float u = ROOT_2_OVER_PI * (x + CUBIC * x * x * x);
    return 1.0f / (1.0f + expf(-2.0f * u));  // if that overflows to infinity, the gate is 0
}

__device__ __forceinline__ float gelu_slope(float x)
{
    float s = gelu_gate(x);
    return s + x * s * (1.0f - s) * 2.0f * ROOT_2_OVER_PI * (1.0f + 3.0f * CUBIC * x * x);
}

// The same for results that are rounded to bfloat16, which is off by 2^-8: a gate within 2^-16 of
// itself, a slope within 2^-18 of itself, or of 1/16 where it crosses zero. -2u is taken in powers
// of two. A slope's x^2 stops growing where the gate has long been 0 or 1: no infinity meets zero.
#define STEEPNESS -2.302208198f  // -2 sqrt(2/pi) log2(e)
#define SATURATED 1e4f           // x^2

__device__ __forceinline__ float narrow_gelu_gate(float x)
{
    float power = power_of_two(x * fmaf(STEEPNESS * CUBIC, x * x, STEEPNESS));
    return reciprocal(1.0f + power);
}

__device__ __forceinline__ float narrow_gelu_slope(float x)
{
    float square = fminf(x * x, SATURATED);
    float s = narrow_gelu_gate(x), more = x * s * (1.0f - s);
    return fmaf(more, fmaf(6.0f * ROOT_2_OVER_PI * CUBIC, square, 2.0f * ROOT_2_OVER_PI), s);
}
