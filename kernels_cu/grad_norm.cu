// Global norm of the gradients, the coefficient that clips it, and the elements that are not
// finite.
//
//   norm = sqrt(sum of grad[i]^2 over the finite elements)
//   coefficient = min(1, clip_norm / (norm + 1e-6))    as torch.nn.utils.clip_grad_norm_ has it;
//                                                      1 where clip_norm is 0
//
// The gradients stay as backward left them: adamw.cu takes an element that is not finite for 0 and
// scales by the coefficient as it reads, which spares a pass that writes, and leaves a NaN where it
// can be found.
// Shapes: grad [n]; partial [blocks]; stats: one GradientStats; control: the control block.
// Sums are float64, in an order that n alone decides: repeatable, and no square overflows.

#include "common/control.cuh"   // Control
#include "common/gradient.cuh"  // GradientStats, is_finite
#include "common/turn.cuh"      // turns

#define QUADS 4
#define TURN TURN_ELEMENTS(QUADS)

struct Partial {
    double squares;
    long long masked;
};

// Adds a quad's finite elements, squared, and counts the others, which are rare.
__device__ __forceinline__ void add_quad_squares(Partial* sum, float4 q)
{
    bool finite = is_finite(q.x) & is_finite(q.y) & is_finite(q.z) & is_finite(q.w);
    if (!finite) {
        sum->masked += !is_finite(q.x) + !is_finite(q.y) + !is_finite(q.z) + !is_finite(q.w);
        q = make_float4(
            finite_or_zero(q.x), finite_or_zero(q.y), finite_or_zero(q.z), finite_or_zero(q.w));
    }
    double x = q.x, y = q.y, z = q.z, w = q.w;
    sum->squares += (x * x + y * y) + (z * z + w * w);
}

// The block's sum, in thread order; the result is thread 0's alone.
__device__ __forceinline__ Partial block_sum(Partial* shared, Partial own)
{
    shared[threadIdx.x] = own;
    __syncthreads();
    if (threadIdx.x > 0) return own;
    for (int t = 1; t < TURN_THREADS; t++) {
        own.squares += shared[t].squares;
        own.masked += shared[t].masked;
    }
    return own;
}

// Overwrites partial[block] with the sums over every gridDim-th turn of the gradients.
// Launch: block 128, grid min(2048, ceil(n/8192)): at least four turns a block, so that the
// barrier and the serial sum after it are small beside them.
extern "C" __global__ void __launch_bounds__(128) grad_norm_partial(
    Partial* __restrict__ partial, const float* __restrict__ grad, long long n)
{
    __shared__ Partial shared[TURN_THREADS];
    Partial own = {0.0, 0};
    long long stride = (long long)gridDim.x * TURN;
    for (long long first = (long long)blockIdx.x * TURN; first < n; first += stride) {
        float4 q[QUADS];
        load_turn(q, grad, first, n, first + TURN <= n && quad_aligned(grad));
        UNROLL for (int k = 0; k < QUADS; k++) add_quad_squares(&own, q[k]);
    }
    own = block_sum(shared, own);
    if (threadIdx.x == 0) partial[blockIdx.x] = own;
}

// Overwrites norm, masked and coefficient of stats; adds to masked_total and masked_steps.
// Launch: block 128, grid 1.
extern "C" __global__ void __launch_bounds__(128) grad_norm_final(
    GradientStats* __restrict__ stats, const Partial* __restrict__ partial,
    const Control* __restrict__ control, int partials)
{
    __shared__ Partial shared[TURN_THREADS];
    Partial own = {0.0, 0};
    for (int p = threadIdx.x; p < partials; p += TURN_THREADS) {
        own.squares += partial[p].squares;
        own.masked += partial[p].masked;
    }
    own = block_sum(shared, own);
    if (threadIdx.x > 0) return;
    double norm = sqrt(own.squares), limit = control->clip_norm;
    double coefficient = limit > 0.0 ? limit / (norm + 1e-6) : 1.0;
    stats->norm = norm;
    stats->coefficient = coefficient < 1.0 ? (float)coefficient : 1.0f;
    stats->masked = own.masked;
    stats->masked_total += own.masked;
    stats->masked_steps += own.masked > 0;
}
