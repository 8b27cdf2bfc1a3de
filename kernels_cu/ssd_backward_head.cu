// Gradients of one chunk of one head of the state space layer, float32: the formulas, shapes and
// order of launches are in ssd_backward.cu.
//
// da is summed pair by pair. dy.(y - D x) - dt x.du telescopes to the same, but it subtracts the
// equal diagonals of both, and leaves their rounding where a head forgets fast.

#include "common/ssd.cuh"  // chunks, tiles

#define LANES 8  // threads that share four time steps
#define THREADS CHUNK_THREADS

// What the threads of ssd_backward_head share.
struct HeadWork {
    float decay[CHUNK], dt[CHUNK];    // 0 from row `rows` on
    float mix[CHUNK][CHUNK + 4];      // [t][s]: scores * exp(l_t - l_s), s <= t
    float cross[CHUNK][CHUNK + 1];    // [t][s]: pairs * scores; then [t][r], its sums over s < r
    float parts[3][LANES][CHUNK];     // of the three sums over P below, each lane's
    float direct[CHUNK];              // x.du
    float left[CHUNK];                // exp(l_last - l_s) dt_s x_s.(dE B_s)
    float entered[CHUNK];             // exp(l_t) dy_t.(S C_t)
    float skip[THREADS], bound[THREADS];  // each thread's part of dy.x and of dE.S
    float totals[2][CHUNK];           // dt da and draw of each step
};

// Fills decay and dt, then, from the products dy_t.x_s, pairs, mix and cross.
__device__ __forceinline__ void fill_squares(
    HeadWork& w, float* pairs, const Chunk& k, const float* dy, const float* x, const float* dt,
    const float* decay, const float* scores, int P, int x_row)
{
    int H = gridDim.y, t = threadIdx.x / LANES * 4, s = threadIdx.x % LANES * 4;
    if (threadIdx.x < CHUNK) {
        int r = threadIdx.x;
        w.decay[r] = r < k.rows ? decay[k.head_step + (size_t)r * H] : 0.0f;
        w.dt[r] = r < k.rows ? dt[k.head_step + (size_t)r * H] : 0.0f;
    }
    __syncthreads();
    Tile sum = zero_tile();
    for (int p = 0; p < P && s <= t; p += 4) {
        int valid = quad_valid(p, P);
        Tile left = load_tile(dy, (size_t)H * P, t, k.rows, p, valid);
        add_products(sum, left, load_tile(x, x_row, s, k.rows, p, valid));
    }
    UNROLL for (int i = 0; i < 4; i++) {
        float products[4] = {sum.row[i].x, sum.row[i].y, sum.row[i].z, sum.row[i].w};
        UNROLL for (int j = 0; j < 4; j++) {
            int row = t + i, column = s + j, at = row * CHUNK + column;
            bool seen = column <= row && row < k.rows;
            float fade = seen ? expf(w.decay[row] - w.decay[column]) : 0.0f;
            float pair = fade * w.dt[column] * products[j];
            pairs[at] = pair;
            w.mix[row][column] = fade * scores[at];
            w.cross[row][column] = pair * scores[at];
        }
    }
    __syncthreads();
}

// Writes dx, and the thread's parts of the sums over P.
__device__ __forceinline__ void input_gradient(
    HeadWork& w, float* dx, const Chunk& k, const float* dy, const float* x, const float* b,
    const float* c, const float* state, const float* dstate, float D, int P, int N, int x_row,
    int bc_row)
{
    int lane = threadIdx.x % LANES, s = threadIdx.x / LANES * 4;
    size_t stride = (size_t)gridDim.y * P;
    float direct[4] = {}, left[4] = {}, entered[4] = {}, skip = 0.0f, last = w.decay[k.rows - 1];
    for (int p = lane * 4; p < P; p += LANES * 4) {
        int valid = quad_valid(p, P);
        Tile own = zero_tile(), after = zero_tile(), before = zero_tile();
        for (int t = s; t < k.rows; t++) {
            add_outer(own, load_quad(&w.mix[t][s], 4), load_quad(dy + t * stride + p, valid));
        }
        for (int n = 0; n < N; n += 4) {
            int n_valid = quad_valid(n, N);
            Tile b_tile = load_tile(b, bc_row, s, k.rows, n, n_valid);
            add_products(after, b_tile, load_tile(dstate, N, p, P, n, n_valid));
            Tile c_tile = load_tile(c, bc_row, s, k.rows, n, n_valid);
            add_products(before, c_tile, load_tile(state, N, p, P, n, n_valid));
        }
        Tile x_tile = load_tile(x, x_row, s, k.rows, p, valid);
        Tile g_tile = load_tile(dy, stride, s, k.rows, p, valid);
        UNROLL for (int i = 0; i < 4; i++) {
            float fade = s + i < k.rows ? expf(last - w.decay[s + i]) : 0.0f;
            after.row[i] = multiply_quad(after.row[i], same_quad(fade));
            own.row[i] = add_quad(own.row[i], after.row[i]);
            direct[i] += dot_quad(own.row[i], x_tile.row[i]);
            left[i] += dot_quad(after.row[i], x_tile.row[i]) * w.dt[s + i];
            entered[i] += dot_quad(before.row[i], g_tile.row[i]) * expf(w.decay[s + i]);
            skip += dot_quad(g_tile.row[i], x_tile.row[i]);
            float4 skipped = multiply_quad(g_tile.row[i], same_quad(D));
            own.row[i] = fma_quad(own.row[i], same_quad(w.dt[s + i]), skipped);
        }
        store_tile(dx, x_row, s, k.rows, p, valid, own);
    }
    UNROLL for (int i = 0; i < 4; i++) {
        w.parts[0][lane][s + i] = direct[i];
        w.parts[1][lane][s + i] = left[i];
        w.parts[2][lane][s + i] = entered[i];
    }
    w.skip[threadIdx.x] = skip;
}

__device__ __forceinline__ float sum_lanes(const float (*parts)[CHUNK], int r)
{
    float sum = 0.0f;
    for (int lane = 0; lane < LANES; lane++) sum += parts[lane][r];
    return sum;
}

// The gradient of dt_r A; the sums over P and the rows' running sums of cross are there.
__device__ __forceinline__ float decay_gradient(const HeadWork& w, int r, int rows)
{
    float da = 0.0f, bound = 0.0f;
    for (int i = 0; i < THREADS; i++) bound += w.bound[i];
    for (int t = r; t < rows; t++) da += w.cross[t][r] + w.entered[t];
    for (int s = 0; s < r; s++) da += w.left[s];
    return fmaf(expf(w.decay[rows - 1]), bound, da);
}

// Overwrites dx, draw, pairs, and partial[chunk] = the sums of dt da, of draw and of dy.x.
// Launch: block 64, grid (chunks, H, B). Thread i owns steps i/8*4 .. i/8*4+3 and every eighth quad
// of P.
extern "C" __global__ void __launch_bounds__(64) ssd_backward_head(
    float* __restrict__ dx, float* __restrict__ draw, float* __restrict__ pairs,
    float* __restrict__ partial, const float* __restrict__ dy, const float* __restrict__ x,
    const float* __restrict__ dt, const float* __restrict__ decay, const float* __restrict__ A_log,
    const float* __restrict__ b, const float* __restrict__ c, const float* __restrict__ D,
    const float* __restrict__ scores, const float* __restrict__ states,
    const float* __restrict__ dstates, int T, int P, int N, int x_row, int bc_row, int raw_row)
{
    __shared__ __align__(16) HeadWork w;
    Chunk k = chunk_of_block(T);
    int H = gridDim.y, h = blockIdx.y, r = threadIdx.x, size = P * N;
    size_t first = k.head_step * P, x_first = k.step * x_row + (size_t)h * P;
    size_t bc_first = k.step * bc_row, square = CHUNK * CHUNK;
    const float* state = states + k.state * size;
    const float* dstate = dstates + k.state * size;

    fill_squares(w, pairs + k.state * square, k, dy + first, x + x_first, dt, decay,
                 scores + k.scores * square, P, x_row);
    input_gradient(w, dx + x_first, k, dy + first, x + x_first, b + bc_first, c + bc_first, state,
                   dstate, D[h], P, N, x_row, bc_row);
    float bound = 0.0f;
    for (int i = r; i < size; i += THREADS) bound = fmaf(dstate[i], state[i], bound);
    w.bound[r] = bound;
    __syncthreads();

    // along s: cross[t][r] = sum over s < r
    if (r < CHUNK) {
        float sum = 0.0f;
        for (int s = 0; s < CHUNK; s++) {
            float next = w.cross[r][s];
            w.cross[r][s] = sum;
            sum += next;
        }
        w.direct[r] = sum_lanes(w.parts[0], r);
        w.left[r] = sum_lanes(w.parts[1], r);
        w.entered[r] = sum_lanes(w.parts[2], r);
    }
    __syncthreads();
    if (r < k.rows) {
        float da = decay_gradient(w, r, k.rows);
        float slope = -expm1f(-w.dt[r]);
        float gradient = slope * fmaf(-expf(A_log[h]), da, w.direct[r]);
        draw[(k.step + r) * raw_row + h] = gradient;
        w.totals[0][r] = w.dt[r] * da;
        w.totals[1][r] = gradient;
    }
    __syncthreads();
    if (r >= 3) return;
    float total = 0.0f;
    const float* from = r < 2 ? w.totals[r] : w.skip;
    for (int i = 0; i < (r < 2 ? k.rows : THREADS); i++) total += from[i];
    partial[(k.scores * 3 + r) * H + h] = total;
}
