// State space layer with one decay a head, float32, by chunks of 32 time steps: the "state space
// duality" of Mamba-2 (Dao and Gu 2024, arXiv 2405.21060, section 6).
//
//   dt = softplus(raw + dt_bias),  A = -exp(A_log)
//   h_t = exp(dt_t A) h_{t-1} + dt_t x_t (outer) B_t,  h [P,N], 0 before t = 0
//   y_t = h_t C_t + D x_t
// and by chunks, l the sum of dt A from the chunk's first step to t, S the state before the chunk:
//   y_t = sum over s <= t of (C_t.B_s) exp(l_t - l_s) dt_s x_s  +  exp(l_t) S C_t  +  D x_t
//   S'  = exp(l_last) S + sum over s of exp(l_last - l_s) dt_s x_s (outer) B_s
//
// Every exponent is <= 0. Order: ssd_decay, ssd_scores, ssd_chunk_states, ssd_state_scan,
// ssd_output.
// Shapes: x, y [B,T,H,P]; raw, dt, decay (l above) [B,T,H]; A_log, dt_bias, D [H]; b, c [B,T,N],
// shared by the heads; scores [B,chunks,32,32], C_t.B_s at [t,s]; states [B,chunks,H,P,N];
// chunks = ceil(T/32). Backward (ssd_backward.cu) reads dt, decay, scores and states.
// The inputs may be columns of wider matrices: x_row, bc_row and raw_row are the distances of the
// time steps of x, of b and c, and of raw; H*P, N and H where they are matrices of their own.

#include "common/ssd.cuh"  // chunks, tiles

#define AHEAD 8  // steps of ssd_decay whose reads are on their way together

// Overwrites dt and decay.
// Launch: block 64, grid ceil(B*chunks*H/64); a thread walks one chunk of one head.
extern "C" __global__ void __launch_bounds__(64) ssd_decay(
    float* __restrict__ dt, float* __restrict__ decay, const float* __restrict__ raw,
    const float* __restrict__ dt_bias, const float* __restrict__ A_log, int B, int T, int H,
    int raw_row)
{
    int chunks = (T + CHUNK - 1) / CHUNK;
    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= (long long)B * chunks * H) return;
    int h = (int)(i % H), chunk = (int)(i / H % chunks);
    long long step = i / H / chunks * T + (long long)chunk * CHUNK;
    int rows = T - chunk * CHUNK < CHUNK ? T - chunk * CHUNK : CHUNK;
    float A = -expf(A_log[h]), bias = dt_bias[h], sum = 0.0f;
    for (int first = 0; first < rows; first += AHEAD) {
        float held[AHEAD];
        UNROLL for (int j = 0; j < AHEAD; j++) {
            held[j] = first + j < rows ? raw[(step + first + j) * raw_row + h] : 0.0f;
        }
        UNROLL for (int j = 0; j < AHEAD; j++) {
            if (first + j >= rows) break;
            long long at = (step + first + j) * H + h;
            float u = held[j] + bias;
            float softplus = fmaxf(u, 0.0f) + log1pf(expf(-fabsf(u)));
            sum = fmaf(softplus, A, sum);
            dt[at] = softplus;
            decay[at] = sum;
        }
    }
}

// Overwrites scores; zeros for steps that do not exist.
// Launch: block 64, grid (chunks, B); 4x4 results a thread.
extern "C" __global__ void __launch_bounds__(64) ssd_scores(
    float* __restrict__ scores, const float* __restrict__ b, const float* __restrict__ c, int T,
    int N, int bc_row)
{
    int chunk = blockIdx.x, t = threadIdx.x / 8 * 4, s = threadIdx.x % 8 * 4;
    int rows = T - chunk * CHUNK < CHUNK ? T - chunk * CHUNK : CHUNK;
    size_t origin = ((size_t)blockIdx.y * T + (size_t)chunk * CHUNK) * bc_row;
    Tile sum = zero_tile();
    for (int n = 0; n < N; n += 4) {
        int valid = quad_valid(n, N);
        Tile left = load_tile(c + origin, bc_row, t, rows, n, valid);
        add_products(sum, left, load_tile(b + origin, bc_row, s, rows, n, valid));
    }
    float* to = scores + ((size_t)blockIdx.y * gridDim.x + chunk) * CHUNK * CHUNK;
    store_tile(to, CHUNK, t, CHUNK, s, 4, sum);
}

// Overwrites states with what each chunk adds to the state by its end.
// Launch: block 64, grid (chunks, H, B).
extern "C" __global__ void __launch_bounds__(64) ssd_chunk_states(
    float* __restrict__ states, const float* __restrict__ x, const float* __restrict__ dt,
    const float* __restrict__ decay, const float* __restrict__ b, int T, int P, int N, int x_row,
    int bc_row)
{
    __shared__ float weights[CHUNK];
    Chunk k = chunk_of_block(T);
    int H = gridDim.y, s = threadIdx.x;
    if (s < k.rows) {
        float last = decay[k.head_step + (size_t)(k.rows - 1) * H];
        size_t at = k.head_step + (size_t)s * H;
        weights[s] = expf(last - decay[at]) * dt[at];
    }
    __syncthreads();
    const float* x_at = x + k.step * x_row + blockIdx.y * P;
    float* to = states + k.state * P * N;
    sum_outer(to, weights, x_at, x_row, b + k.step * bc_row, bc_row, k.rows, P, N);
}

// Turns states, in place, from what each chunk adds into the state before each chunk.
// Launch: block 64, grid (ceil(ceil(P*N/4)/64), H, B); four elements a thread, along the chunks.
extern "C" __global__ void __launch_bounds__(64) ssd_state_scan(
    float* __restrict__ states, const float* __restrict__ decay, int T, int size)
{
    int i = (blockIdx.x * blockDim.x + threadIdx.x) * 4;
    if (i >= size) return;
    int H = gridDim.y, h = blockIdx.y, b = blockIdx.z;
    int valid = quad_valid(i, size), chunks = (T + CHUNK - 1) / CHUNK;
    float4 state = same_quad(0.0f);
    for (int chunk = 0; chunk < chunks; chunk++) {
        int last = (chunk + 1) * CHUNK < T ? (chunk + 1) * CHUNK - 1 : T - 1;
        float keep = expf(decay[((size_t)b * T + last) * H + h]);
        float* at = states + (((size_t)b * chunks + chunk) * H + h) * size + i;
        float4 added = load_quad(at, valid);
        store_quad(at, state, valid);
        state = fma_quad(state, same_quad(keep), added);
    }
}

// Overwrites y.
// Launch: block 64, grid (chunks, H, B). A thread owns four time steps, and four of P at a time.
extern "C" __global__ void __launch_bounds__(64) ssd_output(
    float* __restrict__ y, const float* __restrict__ x, const float* __restrict__ dt,
    const float* __restrict__ decay, const float* __restrict__ c, const float* __restrict__ D,
    const float* __restrict__ scores, const float* __restrict__ states, int T, int P, int N,
    int x_row, int bc_row)
{
    __shared__ float sums[CHUNK];                              // decay; 0 from row `rows` on
    __shared__ __align__(16) float mix[CHUNK][CHUNK + 4];      // [s][t]
    Chunk k = chunk_of_block(T);
    int H = gridDim.y;
    if (threadIdx.x < CHUNK) {
        int s = threadIdx.x;
        sums[s] = s < k.rows ? decay[k.head_step + (size_t)s * H] : 0.0f;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < CHUNK * CHUNK; i += CHUNK_THREADS) {
        int t = i / CHUNK, s = i % CHUNK;
        bool seen = s <= t && t < k.rows;
        float weight = seen ? expf(sums[t] - sums[s]) * dt[k.head_step + (size_t)s * H] : 0.0f;
        mix[s][t] = weight * scores[k.scores * CHUNK * CHUNK + i];
    }
    __syncthreads();

    int t = threadIdx.x / 8 * 4;
    const float* x_at = x + k.step * x_row + blockIdx.y * P;
    const float* state = states + k.state * P * N;
    if (t >= k.rows) return;
    for (int p = threadIdx.x % 8 * 4; p < P; p += 32) {
        int valid = quad_valid(p, P);
        Tile sum = zero_tile();  // of the state's part
        for (int n = 0; n < N; n += 4) {
            int n_valid = quad_valid(n, N);
            Tile left = load_tile(c + k.step * bc_row, bc_row, t, k.rows, n, n_valid);
            add_products(sum, left, load_tile(state, N, p, P, n, n_valid));
        }
        UNROLL for (int i = 0; i < 4; i++) {
            sum.row[i] = multiply_quad(sum.row[i], same_quad(expf(sums[t + i])));
        }
        for (int s = 0; s < t + 4 && s < k.rows; s++) {
            const float* x_quad = x_at + (size_t)s * x_row + p;
            add_outer(sum, load_quad(&mix[s][t], 4), load_quad(x_quad, valid));
        }
        Tile skip = load_tile(x_at, x_row, t, k.rows, p, valid);
        float4 d = same_quad(D[blockIdx.y]);
        UNROLL for (int i = 0; i < 4; i++) sum.row[i] = fma_quad(skip.row[i], d, sum.row[i]);
        store_tile(y + k.head_step * P, (size_t)H * P, t, k.rows, p, valid, sum);
    }
}
