// What is known of a step's gradients, in device memory: grad_norm.cu writes it, adamw.cu and
// loss_ring.cu read it. lowgraph/ops/grad_norm.py holds the same layout: change both.
#pragma once

struct GradientStats {
    double norm;             // global norm before clipping; elements that are not finite count as 0
    long long masked;        // elements of this step that are not finite
    long long masked_total;  // the same of all steps since the struct was zero
    long long masked_steps;  // steps with any
    float coefficient;       // what clipping scales the gradients by, at most 1
    unsigned ticket;         // blocks of a running launch that have left their sums, else 0
};

static_assert(sizeof(GradientStats) == 40, "lowgraph/ops/grad_norm.py holds the same layout");

// By its bits: no compiler option that assumes finite numbers can take the test away.
__device__ __forceinline__ bool is_finite(float x)
{
    return (__float_as_uint(x) & 0x7f800000u) != 0x7f800000u;
}

__device__ __forceinline__ float finite_or_zero(float x)
{
    return is_finite(x) ? x : 0.0f;
}
