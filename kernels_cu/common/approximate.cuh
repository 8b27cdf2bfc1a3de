// Powers and reciprocals by one instruction of a GPU, for results that are rounded to bfloat16: no
// branch and no call, so that a thread's many values are computed beside each other.
#pragma once

// 2^x, within 2 units in the last place; results below 2^-126 are zero.
__device__ __forceinline__ float power_of_two(float x)
{
#ifdef LOWGRAPH_HOST
    float power = exp2f(x);
    return power < 1.17549435e-38f ? 0.0f : power;
#else
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
    return power;
#endif
}

// 1/x, x >= 1 or NaN, within 1 unit in the last place; results below 2^-126 are zero.
__device__ __forceinline__ float reciprocal(float x)
{
#ifdef LOWGRAPH_HOST
    float inverse = 1.0f / x;
    return inverse < 1.17549435e-38f ? 0.0f : inverse;
#else
    float inverse;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(x));
    return inverse;
#endif
}
