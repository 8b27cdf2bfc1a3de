// Gradients of the state space layer of ssd.cu, float32, by the same chunks.
//
// With l, S and scores as there, E = exp(l_last) S + ... the state after a chunk, dE its gradient:
//   dE of the chunk before = exp(l_last) dE + sum over t of exp(l_t) dy_t (outer) C_t
//   du_s = sum over t >= s of scores[t,s] exp(l_t - l_s) dy_t  +  exp(l_last - l_s) dE B_s
//   dx_s = dt_s du_s + D dy_s
//   pairs[t,s] = exp(l_t - l_s) dt_s (dy_t.x_s), s <= t;  dscores = sum over heads of pairs
//   dC_t = sum over s of dscores[t,s] B_s + sum over heads of exp(l_t) dy_t S
//   dB_s = sum over t of dscores[t,s] C_t + sum over heads of exp(l_last - l_s) dt_s x_s dE
//   da_r, the gradient of dt_r A, sums what decays at step r:
//     pairs[t,s] scores[t,s] over s < r <= t,  exp(l_t) dy_t.(S C_t) over t >= r,
//     exp(l_last - l_s) dt_s x_s.(dE B_s) over s < r,  and exp(l_last) dE.S
//   ddt_r = A da_r + x_r.du_r,  draw = ddt * (1 - exp(-dt)),  the slope of the softplus
//   dA_log = A * sum of dt da,  dD = sum of dy.x,  ddt_bias = sum of draw
//
// Order: ssd_backward_states, ssd_backward_scan, ssd_backward_head (ssd_backward_head.cu),
// ssd_backward_inputs, ssd_backward_final. Parameter gradients: a sum for each chunk, then over the
// chunks; no atomics.
// Shapes: as in ssd.cu; dy as y; dx as x; draw as raw; db, dc as b; dstates as states; pairs
// [B,chunks,H,32,32]; partial [B*chunks,3,H]; dA_log, dD, ddt_bias [H]. x_row, bc_row and raw_row
// there are those of the gradients, too.

#include "common/ssd.cuh"  // chunks, tiles

// Overwrites dstates with each chunk's own gradient of the state before it.
// Launch: block 64, grid (chunks, H, B).
extern "C" __global__ void __launch_bounds__(64) ssd_backward_states(
    float* __restrict__ dstates, const float* __restrict__ dy, const float* __restrict__ decay,
    const float* __restrict__ c, int T, int P, int N, int bc_row)
{
    __shared__ float weights[CHUNK];
    Chunk k = chunk_of_block(T);
    int H = gridDim.y, t = threadIdx.x;
    if (t < k.rows) weights[t] = expf(decay[k.head_step + (size_t)t * H]);
    __syncthreads();
    float* to = dstates + k.state * P * N;
    size_t stride = (size_t)H * P;
    const float* c_at = c + k.step * bc_row;
    sum_outer(to, weights, dy + k.head_step * P, stride, c_at, bc_row, k.rows, P, N);
}

// Turns dstates, in place, into the gradient of the state after each chunk.
// Launch: block 64, grid (ceil(ceil(P*N/4)/64), H, B); four elements a thread, back along the
// chunks.
extern "C" __global__ void __launch_bounds__(64) ssd_backward_scan(
    float* __restrict__ dstates, const float* __restrict__ decay, int T, int size)
{
    int i = (blockIdx.x * blockDim.x + threadIdx.x) * 4;
    if (i >= size) return;
    int H = gridDim.y, h = blockIdx.y, b = blockIdx.z;
    int valid = quad_valid(i, size), chunks = (T + CHUNK - 1) / CHUNK;
    float4 after = same_quad(0.0f);
    for (int chunk = chunks - 1; chunk >= 0; chunk--) {
        int last = (chunk + 1) * CHUNK < T ? (chunk + 1) * CHUNK - 1 : T - 1;
        float keep = expf(decay[((size_t)b * T + last) * H + h]);
        float* at = dstates + (((size_t)b * chunks + chunk) * H + h) * size + i;
        float4 own = load_quad(at, valid);
        store_quad(at, after, valid);
        after = fma_quad(after, same_quad(keep), own);
    }
}

// sum += a b, of rows of four
__device__ __forceinline__ void add_matrix(Tile& sum, const Tile& a, const Tile& b)
{
    UNROLL for (int i = 0; i < 4; i++) {
        sum.row[i] = fma_quad(same_quad(a.row[i].x), b.row[0], sum.row[i]);
        sum.row[i] = fma_quad(same_quad(a.row[i].y), b.row[1], sum.row[i]);
        sum.row[i] = fma_quad(same_quad(a.row[i].z), b.row[2], sum.row[i]);
        sum.row[i] = fma_quad(same_quad(a.row[i].w), b.row[3], sum.row[i]);
    }
}

// The thread's 4x4 tile of dscores, into shared memory in both orders.
__device__ __forceinline__ void sum_pairs(
    float (*by_t)[CHUNK + 4], float (*by_s)[CHUNK + 4], const float* pairs, int H)
{
    int t = threadIdx.x / 8 * 4, s = threadIdx.x % 8 * 4;
    Tile sum = zero_tile();
    for (int h = 0; h < H; h++) {
        const float* from = pairs + ((size_t)h * CHUNK + t) * CHUNK + s;
        UNROLL for (int i = 0; i < 4; i++) {
            sum.row[i] = add_quad(sum.row[i], load_quad(from + i * CHUNK, 4));
        }
    }
    UNROLL for (int i = 0; i < 4; i++) {
        store_quad(&by_t[t + i][s], sum.row[i], 4);
        by_s[s + 0][t + i] = sum.row[i].x;
        by_s[s + 1][t + i] = sum.row[i].y;
        by_s[s + 2][t + i] = sum.row[i].z;
        by_s[s + 3][t + i] = sum.row[i].w;
    }
}

// Overwrites db and dc.
// Launch: block 64, grid (ceil(N/32), chunks, B). A thread owns four steps and four of N in both.
extern "C" __global__ void __launch_bounds__(64) ssd_backward_inputs(
    float* __restrict__ db, float* __restrict__ dc, const float* __restrict__ pairs,
    const float* __restrict__ dy, const float* __restrict__ x, const float* __restrict__ dt,
    const float* __restrict__ decay, const float* __restrict__ b, const float* __restrict__ c,
    const float* __restrict__ states, const float* __restrict__ dstates, int T, int H, int P, int N,
    int x_row, int bc_row)
{
    __shared__ __align__(16) float by_t[CHUNK][CHUNK + 4];
    __shared__ __align__(16) float by_s[CHUNK][CHUNK + 4];
    int begin = blockIdx.y * CHUNK, rows = T - begin < CHUNK ? T - begin : CHUNK;
    size_t step = (size_t)blockIdx.z * T + begin;
    size_t chunk = (size_t)blockIdx.z * gridDim.y + blockIdx.y, stride = (size_t)H * P;
    sum_pairs(by_t, by_s, pairs + chunk * H * CHUNK * CHUNK, H);
    __syncthreads();

    int own = threadIdx.x / 8 * 4, n = blockIdx.x * 32 + threadIdx.x % 8 * 4;
    if (n >= N || own >= rows) return;
    int n_valid = quad_valid(n, N);
    Tile db_sum = zero_tile(), dc_sum = zero_tile();
    for (int i = 0; i < rows; i++) {
        float4 b_quad = load_quad(b + (step + i) * bc_row + n, n_valid);
        float4 c_quad = load_quad(c + (step + i) * bc_row + n, n_valid);
        add_outer(dc_sum, load_quad(&by_s[i][own], 4), b_quad);
        add_outer(db_sum, load_quad(&by_t[i][own], 4), c_quad);
    }
    for (int h = 0; h < H; h++) {
        float b_weight[4], c_weight[4], last = decay[(step + rows - 1) * H + h];
        UNROLL for (int i = 0; i < 4; i++) {
            size_t at = (step + own + i) * H + h;
            bool exists = own + i < rows;
            c_weight[i] = exists ? expf(decay[at]) : 0.0f;
            b_weight[i] = exists ? expf(last - decay[at]) * dt[at] : 0.0f;
        }
        const float* x_at = x + step * x_row + (size_t)h * P;
        size_t first = (step * H + h) * P, state = (chunk * H + h) * P * N;
        for (int p = 0; p < P; p += 4) {
            int valid = quad_valid(p, P);
            Tile x_tile = load_tile(x_at, x_row, own, rows, p, valid);
            Tile g_tile = load_tile(dy + first, stride, own, rows, p, valid);
            UNROLL for (int i = 0; i < 4; i++) {
                x_tile.row[i] = multiply_quad(x_tile.row[i], same_quad(b_weight[i]));
                g_tile.row[i] = multiply_quad(g_tile.row[i], same_quad(c_weight[i]));
            }
            add_matrix(db_sum, x_tile, load_tile(dstates + state, N, p, P, n, n_valid));
            add_matrix(dc_sum, g_tile, load_tile(states + state, N, p, P, n, n_valid));
        }
    }
    store_tile(db + step * bc_row, bc_row, own, rows, n, n_valid, db_sum);
    store_tile(dc + step * bc_row, bc_row, own, rows, n, n_valid, dc_sum);
}

// Overwrites dA_log, ddt_bias and dD with the sums over chunks, or adds them where accumulate is 1.
// Launch: block 64, grid H.
// Sums in double, each thread over its own stride and then in thread order: repeatable, and rounded
// once.
extern "C" __global__ void __launch_bounds__(64) ssd_backward_final(
    float* __restrict__ dA_log, float* __restrict__ ddt_bias, float* __restrict__ dD,
    const float* __restrict__ partial, const float* __restrict__ A_log, int chunks, int accumulate)
{
    __shared__ double sums[3][CHUNK_THREADS];
    int H = gridDim.x, h = blockIdx.x, kind = threadIdx.x;
    for (int q = 0; q < 3; q++) {
        double sum = 0.0;
        for (int i = threadIdx.x; i < chunks; i += CHUNK_THREADS) {
            sum += partial[((size_t)i * 3 + q) * H + h];
        }
        sums[q][threadIdx.x] = sum;
    }
    __syncthreads();
    if (kind >= 3) return;
    float* to = (kind == 0 ? dA_log : kind == 1 ? ddt_bias : dD) + h;
    double total = 0.0;
    for (int t = 0; t < CHUNK_THREADS; t++) total += sums[kind][t];
    if (kind == 0) total *= -expf(A_log[h]);
    *to = (float)(accumulate ? *to + total : total);
}
