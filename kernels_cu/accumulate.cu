// Gradient accumulation: the mean of the gradients, and of the losses, of a step's micro-batches.

#include "common/turn.cuh"  // turns

#define QUADS 4
#define TURN TURN_ELEMENTS(QUADS)

// Overwrites sum = scale * grad and loss_sum = scale * loss where overwrite is 1 (the first
// micro-batch), else adds: sum += scale * grad, loss_sum += scale * loss.
// Shapes: sum, grad [n]; loss_sum, loss [1]. scale: 1 / micro-batches, the same in all of them.
// Launch: block 128, grid max(1, ceil(n/2048)).
extern "C" __global__ void __launch_bounds__(128) accumulate(
    float* __restrict__ sum, float* __restrict__ loss_sum, const float* __restrict__ grad,
    const float* __restrict__ loss, float scale, int overwrite, long long n)
{
    long long first = (long long)blockIdx.x * TURN;
    bool whole = first + TURN <= n && quad_aligned(sum) && quad_aligned(grad);
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        *loss_sum = fmaf(scale, *loss, overwrite ? 0.0f : *loss_sum);
    }
    float4 s[QUADS] = {}, g[QUADS];
    load_turn(g, grad, first, n, whole);
    if (!overwrite) load_turn(s, sum, first, n, whole);
    UNROLL for (int k = 0; k < QUADS; k++) s[k] = fma_quad(same_quad(scale), g[k], s[k]);
    store_turn(sum, s, first, n, whole);
}
