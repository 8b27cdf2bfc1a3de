// Gradients of the state space layer of ssd_short.cu, float32: one block a head of a sequence, and
// one launch more for what is summed over heads or sequences.
//
// With l and the limits as there, s <= t:
//   mix[t,s] = (C_t.B_s) exp(l_t - l_s),  cross[t,s] = mix[t,s] (dy_t.x_s)
//   pairs[t,s] = exp(l_t - l_s) dt_s (dy_t.x_s)
//   dx_s = dt_s (sum over t >= s of mix[t,s] dy_t) + D dy_s
//   dC_t = sum over heads and s of pairs[t,s] B_s,  dB_s = sum over heads and t of pairs[t,s] C_t
//   da_r, the gradient of dt_r A, = sum over s < r <= t of dt_s cross[t,s]
//   ddt_r = A da_r + sum over t >= r of cross[t,r],  draw = ddt * (1 - exp(-dt))
//   dA_log = A * sum of dt da,  dD = sum of dy.x,  ddt_bias = sum of draw
// da is summed pair by pair, for the reason in ssd_backward_head.cu.
//
// Order: ssd_short_backward, ssd_short_sum. The five products round their factors where SQUARE_TF32
// is 1. No atomics: the bits repeat.
// Shapes and distances: as in ssd.cu; dx as x, draw as raw, db and dc as b, dy as y; by_head
// [H,B*T,2,N], each head's part of db and dc; partial [B,3,H]; dA_log, dD, ddt_bias [H].

#include "common/square.cuh"  // squares, their products

#define STRIPES (SQUARE_THREADS / SIDE)  // threads that share a row or column
#define STRIPE (SIDE / STRIPES)

// 99 KiB: what a block has on every GPU from compute capability 8.0 on.
struct BackwardWork {
    Square c, b, dy, pairs, mix;
    union {
        Square x;      // until dy_t.x_s are made
        Square cross;  // [t][s]; then [t][r], the sums over s < r of dt_s times it
    };
    float dt[SIDE];         // 0 from T on
    float totals[3][SIDE];  // of each step: dt da, draw, dy.x
    union {
        float rows[STRIPES][SIDE];   // sums of dt_s cross[t,s] over a stripe of s
        float bound[STRIPES][SIDE];  // then of da_r over a stripe of t
    };
    float direct[STRIPES][SIDE];  // sums of cross[t,r] over a stripe of t
};

static_assert(sizeof(BackwardWork) == 101376, "lowgraph/ops/ssd_short.py says so to the launch");

// l of each step, 0 from T on; in the place of the first total, which comes later.
__device__ __forceinline__ float* decay_of(BackwardWork& w)
{
    return w.totals[0];
}

// Fills pairs, mix, cross, and dy.x, from both squares of products.
__device__ __forceinline__ void fill_squares(
    BackwardWork& w, const Part& scores, const Part& products, int T)
{
    const float* decay = decay_of(w);
    UNROLL for (int j = 0; j < 4; j++) {
        UNROLL for (int e = 0; e < 4; e++) {
            int t = row_of(scores, e), s = column_of(scores, j, e), at = square_at(t, s);
            float fade = s <= t && t < T ? expf(decay[t] - decay[s]) : 0.0f;
            float mix = fade * scores.d[j][e];
            w.mix.cell[at] = factor(mix);
            w.pairs.cell[at] = factor(fade * w.dt[s] * products.d[j][e]);
            w.cross.cell[at] = mix * products.d[j][e];
            if (s == t) w.totals[2][t] = products.d[j][e];
        }
    }
}

// A row's stripe of cross, times dt_s: sums over s come from it. All of it is there if it begins
// below the diagonal, with zeros above.
__device__ __forceinline__ void load_stripe(float4 (&q)[STRIPE / 4], const BackwardWork& w, int own,
                                            int first)
{
    UNROLL for (int i = 0; i < STRIPE / 4; i++) {
        float4 cross = load_quad(w.cross.cell + square_quad(own, first / 4 + i), 4);
        q[i] = multiply_quad(cross, load_quad(w.dt + first + 4 * i, 4));
    }
}

// The sum of cross[t, own] over a stripe of t.
__device__ __forceinline__ float sum_column(const BackwardWork& w, int own, int first, int T)
{
    float sum = 0.0f;
    UNROLL for (int i = 0; i < STRIPE; i++) {
        int t = first + i;
        if (t >= own && t < T) sum += w.cross.cell[square_at(t, own)];
    }
    return sum;
}

// The first look at cross: the sums of a row, of step `own`, and of a column, over one stripe each.
__device__ __forceinline__ void sum_stripes(BackwardWork& w, int own, int stripe, int T)
{
    int first = stripe * STRIPE;
    float4 sum = same_quad(0.0f);
    if (first <= own && own < T) {
        float4 q[STRIPE / 4];
        load_stripe(q, w, own, first);
        UNROLL for (int i = 0; i < STRIPE / 4; i++) sum = add_quad(sum, q[i]);
    }
    w.rows[stripe][own] = (sum.x + sum.y) + (sum.z + sum.w);
    w.direct[stripe][own] = sum_column(w, own, first, T);
}

// Gives back a sum, and adds the next term to it.
__device__ __forceinline__ float before(float& sum, float next)
{
    float given = sum;
    sum += next;
    return given;
}

// Puts the sums over s < r in place of a row's stripe of cross. All is loaded before the first is
// stored: the compiler cannot know that they are different places.
__device__ __forceinline__ void run_stripe(BackwardWork& w, int own, int stripe, int T)
{
    int first = stripe * STRIPE;
    if (first > own || own >= T) return;
    float4 q[STRIPE / 4];
    load_stripe(q, w, own, first);
    float sum = 0.0f;
    for (int i = 0; i < stripe; i++) sum += w.rows[i][own];
    UNROLL for (int i = 0; i < STRIPE / 4; i++) {
        float x = before(sum, q[i].x), y = before(sum, q[i].y), z = before(sum, q[i].z);
        float4 run = make_float4(x, y, z, before(sum, q[i].w));
        store_quad(w.cross.cell + square_quad(own, first / 4 + i), run, 4);
    }
}

__device__ __forceinline__ float add_stripes(const float (*sums)[SIDE], int own)
{
    float sum = 0.0f;
    for (int stripe = 0; stripe < STRIPES; stripe++) sum += sums[stripe][own];
    return sum;
}

// part = dt_s part + D skip, skip: dy_s
__device__ __forceinline__ void finish_input_gradient(
    Part& part, const Part& skip, const BackwardWork& w, float D)
{
    UNROLL for (int j = 0; j < 4; j++) {
        UNROLL for (int e = 0; e < 4; e++) {
            part.d[j][e] = fmaf(w.dt[row_of(part, e)], part.d[j][e], D * skip.d[j][e]);
        }
    }
}

// Overwrites dx, draw, by_head[h], and partial[b] = the sums of dt da, of draw and of dy.x.
// Launch: block 256, grid (H, B), shared memory for a BackwardWork.
extern "C" __global__ void __launch_bounds__(256) ssd_short_backward(
    float* __restrict__ dx, float* __restrict__ draw, float* __restrict__ by_head,
    float* __restrict__ partial, const float* __restrict__ dy, const float* __restrict__ x,
    const float* __restrict__ dt, const float* __restrict__ decay, const float* __restrict__ A_log,
    const float* __restrict__ b, const float* __restrict__ c, const float* __restrict__ D, int T,
    int P, int N, int x_row, int bc_row, int raw_row)
{
    extern __shared__ float4 room[];
    BackwardWork& w = *reinterpret_cast<BackwardWork*>(room);
    int H = gridDim.x, h = blockIdx.x, own = threadIdx.x % SIDE, stripe = threadIdx.x / SIDE;
    size_t first = (size_t)blockIdx.y * T, head_first = first * H + h;
    size_t x_first = first * x_row + (size_t)h * P;

    start_square(w.c, c + first * bc_row, bc_row, T, N);
    start_square(w.b, b + first * bc_row, bc_row, T, N);
    close_batch();
    start_square(w.x, x + x_first, x_row, T, P);
    start_square(w.dy, dy + head_first * P, (size_t)H * P, T, P);
    close_batch();
    float A = -expf(A_log[h]), d = D[h];
    if (stripe == 0) {
        size_t at = head_first + (size_t)own * H;
        w.dt[own] = own < T ? dt[at] : 0.0f;
        decay_of(w)[own] = own < T ? decay[at] : 0.0f;
        w.totals[2][own] = 0.0f;
    }
    wait_for_batches<1>();
    make_factors(w.c);
    make_factors(w.b);
    __syncthreads();

    Part scores = empty_part(), products = empty_part();
    int stop = scores.row + PART_ROWS, steps = (T + 7) / 8 * 8;  // sums end at the diagonal, or T
    bool below = scores.column < stop && scores.row < T;
    if (below) add_product<false, true>(scores, w.c, w.b, 0, (N + 7) / 8 * 8);
    wait_for_batches<0>();
    make_factors(w.x);
    make_factors(w.dy);
    __syncthreads();
    if (below) add_product<false, true>(products, w.dy, w.x, 0, (P + 7) / 8 * 8);
    __syncthreads();
    if (below) fill_squares(w, scores, products, T);
    __syncthreads();

    // In each of the next steps the product comes first, while the warp's threads are together.
    Part part = empty_part();
    if (part.row < T && part.column < P) {
        Part skip = load_part(dy + head_first * P, (size_t)H * P, T, P);  // not rounded
        add_product<true, false>(part, w.mix, w.dy, part.row, steps);
        finish_input_gradient(part, skip, w, d);
        store_part(dx + x_first, x_row, part, T, P);
    }
    sum_stripes(w, own, stripe, T);
    __syncthreads();

    float* to = by_head + ((size_t)h * gridDim.y * T + first) * 2 * N;
    bool wanted = part.row < T && part.column < N;
    part = empty_part();
    if (wanted) {
        add_product<false, false>(part, w.pairs, w.b, 0, stop);
        store_part(to + N, 2 * (size_t)N, part, T, N);
    }
    run_stripe(w, own, stripe, T);
    __syncthreads();

    part = empty_part();
    if (wanted) {
        add_product<true, false>(part, w.pairs, w.c, part.row, steps);
        store_part(to, 2 * (size_t)N, part, T, N);
    }
    w.bound[stripe][own] = sum_column(w, own, stripe * STRIPE, T);
    __syncthreads();

    if (stripe == 0) {
        float da = own < T ? add_stripes(w.bound, own) : 0.0f;
        float gradient = -expm1f(-w.dt[own]) * fmaf(A, da, add_stripes(w.direct, own));
        if (own < T) draw[(first + own) * raw_row + h] = gradient;
        w.totals[0][own] = w.dt[own] * da;
        w.totals[1][own] = gradient;
    }
    __syncthreads();
    if (threadIdx.x >= 3) return;
    float4 total = same_quad(0.0f);
    const float* totals = w.totals[threadIdx.x];
    for (int i = 0; i < SIDE; i += 4) total = add_quad(total, load_quad(totals + i, 4));
    partial[((size_t)blockIdx.y * 3 + threadIdx.x) * H + h] =
        (total.x + total.y) + (total.z + total.w);
}

// The sums over sequences of head h, by one block: in double, each thread over its own stride and
// then in thread order, rounded once.
__device__ __forceinline__ void sum_parameters(
    float* dA_log, float* ddt_bias, float* dD, const float* partial, const float* A_log, int B,
    int H, int h, int accumulate)
{
    __shared__ double sums[3][SQUARE_THREADS];
    int kind = threadIdx.x;
    for (int q = 0; q < 3; q++) {
        double sum = 0.0;
        for (int i = threadIdx.x; i < B; i += SQUARE_THREADS) {
            sum += partial[((size_t)i * 3 + q) * H + h];
        }
        sums[q][threadIdx.x] = sum;
    }
    __syncthreads();
    if (kind >= 3) return;
    float* to = (kind == 0 ? dA_log : kind == 1 ? ddt_bias : dD) + h;
    double total = 0.0;
    for (int t = 0; t < SQUARE_THREADS && t < B; t++) total += sums[kind][t];
    if (kind == 0) total *= -expf(A_log[h]);
    *to = (float)(accumulate ? *to + total : total);
}

template <bool WHOLE>
__device__ __forceinline__ float4 sum_heads(const float* from, size_t head, int H, int valid)
{
    float4 sum = same_quad(0.0f);
    for (int h = 0; h < H; h++) {
        sum = add_quad(sum, load_quad_of<WHOLE>(from + h * head, valid));
    }
    return sum;
}

// Overwrites db and dc with the sums over heads; and overwrites dA_log, ddt_bias and dD with the
// sums over sequences, or adds them where accumulate is 1.
// Launch: block 256, grid H + ceil(rows*2*ceil(N/4)/256): a block a head, then four of N a thread.
extern "C" __global__ void __launch_bounds__(256) ssd_short_sum(
    float* __restrict__ db, float* __restrict__ dc, float* __restrict__ dA_log,
    float* __restrict__ ddt_bias, float* __restrict__ dD, const float* __restrict__ by_head,
    const float* __restrict__ partial, const float* __restrict__ A_log, int B, int rows, int H,
    int N, int bc_row, int accumulate)
{
    int block = (int)blockIdx.x - H;
    if (block < 0) {
        sum_parameters(dA_log, ddt_bias, dD, partial, A_log, B, H, blockIdx.x, accumulate);
        return;
    }
    int quads = (N + 3) / 4;
    long long i = (long long)block * SQUARE_THREADS + threadIdx.x, place = i / quads;
    if (place >= 2LL * rows) return;
    int n = (int)(i - place * quads) * 4, valid = quad_valid(n, N);
    const float* from = by_head + place * N + n;  // place: a row of db, then that row of dc
    size_t head = (size_t)rows * 2 * N;
    bool whole = valid == 4 && N % 4 == 0 && quad_aligned(by_head);
    float4 sum = whole ? sum_heads<true>(from, head, H, valid)
                       : sum_heads<false>(from, head, H, valid);
    store_quad((place % 2 ? dc : db) + place / 2 * bc_row + n, sum, valid);
}
