// Stochastic gradient descent, float32, in place over flat arenas: one launch for all tensors.
//
//   g = coefficient * grad, 0 where grad is not finite    (grad_norm.cu; grad is left as it is)
//   g = g + weight_decay * p            for the first n_decay elements, not for the rest
//   m = momentum * m + g                with MOMENTUM; else m is g
//   p = p - lr * m
//
// as torch.optim.SGD has it, without dampening and without Nesterov's step.
// Shapes: param, m, grad [n], each in the same order; stats: of this step's gradients; control: the
// control block, advanced to this step.
// MOMENTUM is a define, 0 or 1; without it m is null and momentum is not read.

#ifndef MOMENTUM
#define MOMENTUM 0
#endif

#include "common/control.cuh"   // Control
#include "common/gradient.cuh"  // GradientStats, finite_or_zero
#include "common/turn.cuh"      // turns

#define QUADS 2
#define TURN TURN_ELEMENTS(QUADS)

__device__ __forceinline__ float4 scaled_gradient(float4 g, float coefficient)
{
    return make_float4(
        coefficient * finite_or_zero(g.x), coefficient * finite_or_zero(g.y),
        coefficient * finite_or_zero(g.z), coefficient * finite_or_zero(g.w));
}

// decaying: how many of the four elements decay, counted from the first; may be out of 0 .. 4.
__device__ __forceinline__ float4 decay_of(long long decaying, float decay)
{
    return make_float4(
        decaying > 0 ? decay : 0.0f, decaying > 1 ? decay : 0.0f, decaying > 2 ? decay : 0.0f,
        decaying > 3 ? decay : 0.0f);
}

// Updates param and m in place.
// Launch: block 128, grid ceil(n/1024); eight elements a thread.
extern "C" __global__ void __launch_bounds__(128) sgd(
    float* __restrict__ param, float* __restrict__ m, const float* __restrict__ grad,
    const GradientStats* __restrict__ stats, const Control* __restrict__ control, float momentum,
    long long n_decay, long long n)
{
    long long first = (long long)blockIdx.x * TURN;
    size_t addresses = (size_t)param | (size_t)m | (size_t)grad;
    bool whole = first + TURN <= n && (addresses & 15) == 0;
    float coefficient = stats->coefficient, decay = control->weight_decay;
    float4 step = same_quad(-control->lr);

    float4 p[QUADS], g[QUADS];
    load_turn(p, param, first, n, whole);
    load_turn(g, grad, first, n, whole);
#if MOMENTUM
    float4 a[QUADS], keep = same_quad(momentum);
    load_turn(a, m, first, n, whole);
#endif
    UNROLL for (int k = 0; k < QUADS; k++) {
        float4 decays = decay_of(n_decay - turn_place(first, k), decay);
        g[k] = fma_quad(decays, p[k], scaled_gradient(g[k], coefficient));
#if MOMENTUM
        g[k] = a[k] = fma_quad(keep, a[k], g[k]);
#endif
        p[k] = fma_quad(step, g[k], p[k]);
    }
    store_turn(param, p, first, n, whole);
#if MOMENTUM
    store_turn(m, a, first, n, whole);
#endif
}
