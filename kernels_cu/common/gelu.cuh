// GELU with the tanh approximation: gelu(x) = x * gelu_gate(x), and its derivative; gelu.cu has the
// formulas.
#pragma once

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
