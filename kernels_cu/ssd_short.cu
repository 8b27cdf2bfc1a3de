// The state space layer of ssd.cu for short sequences, float32: T, P and N are 64 at most, and one
// block makes a head of a sequence in one launch.
//
// A sequence is one chunk, so there is no state to carry:
//   dt = softplus(raw + dt_bias),  l_t = sum over s <= t of dt_s A,  A = -exp(A_log)
//   y_t = sum over s <= t of (C_t.B_s) exp(l_t - l_s) dt_s x_s  +  D x_t
//
// The two products are those of common/square.cuh, whose define SQUARE_TF32 says if their factors
// are rounded: C, B, x, and the weights of x. Decays and step sizes are never rounded.
// Shapes and distances: as in ssd.cu. Backward: ssd_short_backward.cu.

#include "common/square.cuh"  // squares, their products

struct ForwardWork {
    Square c, b, x;
    Square mix;  // [t][s]: the weight of x_s in y_t
    float dt[SIDE], decay[SIDE];  // decay: l above
};

static_assert(sizeof(ForwardWork) == 66048, "lowgraph/ops/ssd_short.py says so to the launch");

// Runs the sums of dt A up to step t, and writes both.
__device__ __forceinline__ void sum_decay(
    ForwardWork& w, float* dt, float* decay, int t, float A, size_t step, int H)
{
    float sum = 0.0f;
    for (int s = 0; s <= t; s += 4) {
        float4 q = load_quad(w.dt + s, 4);
        sum = fmaf(q.x, A, sum);
        if (s + 1 <= t) sum = fmaf(q.y, A, sum);
        if (s + 2 <= t) sum = fmaf(q.z, A, sum);
        if (s + 3 <= t) sum = fmaf(q.w, A, sum);
    }
    w.decay[t] = sum;
    dt[step + (size_t)t * H] = w.dt[t];
    decay[step + (size_t)t * H] = sum;
}

// Overwrites y, dt and decay.
// Launch: block 256, grid (H, B), shared memory for a ForwardWork.
extern "C" __global__ void __launch_bounds__(256) ssd_short_forward(
    float* __restrict__ y, float* __restrict__ dt, float* __restrict__ decay,
    const float* __restrict__ x, const float* __restrict__ raw, const float* __restrict__ dt_bias,
    const float* __restrict__ A_log, const float* __restrict__ b, const float* __restrict__ c,
    const float* __restrict__ D, int T, int P, int N, int x_row, int bc_row, int raw_row)
{
    extern __shared__ float4 room[];
    ForwardWork& w = *reinterpret_cast<ForwardWork*>(room);
    int H = gridDim.x, h = blockIdx.x;
    size_t first = (size_t)blockIdx.y * T;
    // Warps 4 and 5 have nothing to do in the first product, above the diagonal: a step a thread.
    int step = (int)threadIdx.x - 128;
    bool has_step = step >= 0 && step < T;

    start_square(w.c, c + first * bc_row, bc_row, T, N);
    start_square(w.b, b + first * bc_row, bc_row, T, N);
    close_batch();
    start_square(w.x, x + first * x_row + (size_t)h * P, x_row, T, P);
    close_batch();
    float A = -expf(A_log[h]), d = D[h];
    if (step >= 0 && step < SIDE) w.dt[step] = 0.0f;
    if (has_step) {
        float u = raw[(first + step) * raw_row + h] + dt_bias[h];
        w.dt[step] = fmaxf(u, 0.0f) + log1pf(expf(-fabsf(u)));
    }
    wait_for_batches<1>();
    make_factors(w.c);
    make_factors(w.b);
    __syncthreads();

    Part part = empty_part();
    int stop = part.row + PART_ROWS;  // the sums end at the diagonal
    bool below = part.column < stop && part.row < T;
    if (below) add_product<false, true>(part, w.c, w.b, 0, (N + 7) / 8 * 8);
    if (has_step) sum_decay(w, dt, decay, step, A, first * H + h, H);
    wait_for_batches<0>();
    make_factors(w.x);
    __syncthreads();

    UNROLL for (int j = 0; j < 4 && below; j++) {
        UNROLL for (int e = 0; e < 4; e++) {
            int t = row_of(part, e), s = column_of(part, j, e);
            bool seen = s <= t && t < T;
            float weight = seen ? expf(w.decay[t] - w.decay[s]) * w.dt[s] : 0.0f;
            w.mix.cell[square_at(t, s)] = factor(weight * part.d[j][e]);
        }
    }
    __syncthreads();

    part = empty_part();
    if (part.row >= T || part.column >= P) return;
    Part skip = load_part(x + first * x_row + (size_t)h * P, x_row, T, P);  // not rounded
    add_product<false, false>(part, w.mix, w.x, 0, stop);
    UNROLL for (int j = 0; j < 4; j++) {
        UNROLL for (int e = 0; e < 4; e++) {
            part.d[j][e] = fmaf(d, skip.d[j][e], part.d[j][e]);
        }
    }
    store_part(y + (first * H + h) * P, (size_t)H * P, part, T, P);
}
