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
// Sums are float64, in an order that n alone decides: repeatable, and no square overflows. The
// block that comes last adds those of all blocks, in their order: which one it is changes nothing.

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

#define GROUPS 16  // of threads whose sums are added first

__device__ __forceinline__ void add_partial(Partial* sum, Partial more)
{
    sum->squares += more.squares;
    sum->masked += more.masked;
}

// The block's sum: of every 16th thread, then of those, each in order; the result is thread 0's
// alone. 22 additions that wait for one another, where all threads in a row are 127.
__device__ __forceinline__ Partial block_sum(Partial* shared, Partial own)
{
    int t = threadIdx.x;
    shared[t] = own;
    __syncthreads();
    if (t < GROUPS) {
        UNROLL for (int k = GROUPS; k < TURN_THREADS; k += GROUPS) add_partial(&own, shared[t + k]);
        shared[t] = own;
    }
    __syncthreads();
    if (t > 0) return own;
    UNROLL for (int k = 1; k < GROUPS; k++) add_partial(&own, shared[k]);
    return own;
}

// What the last block reads at once; all of it beside the first partial sums, so that nothing is
// waited for behind the root.
struct Before {
    double limit;
    long long total, steps;
};

#define FOUND 8  // partial sums that a thread reads before it adds the first

// This thread's share of the partial sums: other blocks wrote them, so they are read past L1.
__device__ __forceinline__ Partial add_partials(const Partial* partial)
{
    Partial sum = {0.0, 0};
    int blocks = gridDim.x;
    for (int first = threadIdx.x; first < blocks; first += FOUND * TURN_THREADS) {
        Partial found[FOUND];
        UNROLL for (int u = 0; u < FOUND; u++) {
            int p = first + u * TURN_THREADS;
            found[u].squares = p < blocks ? __ldcg(&partial[p].squares) : 0.0;
            found[u].masked = p < blocks ? __ldcg(&partial[p].masked) : 0;
        }
        UNROLL for (int u = 0; u < FOUND; u++) add_partial(&sum, found[u]);
    }
    return sum;
}

// Overwrites norm, masked and coefficient; adds to masked_total and masked_steps.
__device__ __forceinline__ void write_stats(GradientStats* stats, Partial all, Before before)
{
    double norm = sqrt(all.squares), limit = before.limit;
    double coefficient = limit > 0.0 ? limit / (norm + 1e-6) : 1.0;
    stats->norm = norm;
    stats->coefficient = coefficient < 1.0 ? (float)coefficient : 1.0f;
    stats->masked = all.masked;
    stats->masked_total = before.total + all.masked;
    stats->masked_steps = before.steps + (all.masked > 0);
}

// Overwrites partial[block] with the sums over every gridDim-th turn of the gradients, and rewrites
// stats as write_stats has it. The last ticket of a launch sets the ticket back to 0.
// Launch: block 128, grid min(2048, max(1, ceil(n/2048))).
extern "C" __global__ void __launch_bounds__(128, 10) grad_norm(
    GradientStats* __restrict__ stats, Partial* partial, const float* __restrict__ grad,
    const Control* __restrict__ control, long long n)
{
    __shared__ Partial shared[TURN_THREADS];
    __shared__ bool last;
    Partial own = {0.0, 0};
    long long stride = (long long)gridDim.x * TURN;
    for (long long first = (long long)blockIdx.x * TURN; first < n; first += stride) {
        float4 q[QUADS];
        load_turn(q, grad, first, n, first + TURN <= n && quad_aligned(grad));
        UNROLL for (int k = 0; k < QUADS; k++) add_quad_squares(&own, q[k]);
    }
    own = block_sum(shared, own);
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = own;
        __threadfence();
        last = atomicInc(&stats->ticket, gridDim.x - 1) == gridDim.x - 1;
        if (last) __threadfence();
    }
    __syncthreads();
    if (!last) return;

    Before before = {
        __ldcg(&control->clip_norm), __ldcg(&stats->masked_total), __ldcg(&stats->masked_steps)};
    Partial all = block_sum(shared, add_partials(partial));
    if (threadIdx.x == 0) write_stats(stats, all, before);
}
