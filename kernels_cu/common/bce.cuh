// Binary cross-entropy of one logit: its loss, and its slope by the logit.
#pragma once

#include "common/sigmoid.cuh"  // sigmoid

// max(x, 0) - x * target + log(1 + exp(-|x|)). The exponent is never positive, so nothing
// overflows, and for a sure and right answer log1p keeps the digits of a tiny loss.
__device__ __forceinline__ float element_loss(float x, float target)
{
    return fmaxf(x, 0.0f) - x * target + log1pf(expf(-fabsf(x)));
}

__device__ __forceinline__ float element_slope(float x, float target)
{
    return sigmoid(x) - target;
}
