// Causal self-attention over packed projections, bfloat16, by tensor cores, without the [T,T]
// matrix (Dao 2023, "FlashAttention-2").
//
//   s[i,j] = scale * q[i].k[j] for j <= i,   p = softmax(s),   out[i] = sum over j of p[i,j] v[j]
//   lse[i] = log(sum over j of exp(s[i,j]))
//   delta[i] = dout[i].out[i],   ds[i,j] = p[i,j] (dout[i].v[j] - delta[i])
//   dq[i] = scale * sum over j of ds[i,j] k[j],   dk[j] = scale * sum over i of ds[i,j] q[i]
//   dv[j] = sum over i of p[i,j] dout[i]
//
// Shapes: qkv, dqkv [B,T,3C] (q, k, v beside each other, C = heads * HEAD_SIZE, head-major); out,
// dout [B,T,C]; lse, delta [B,heads,T]. All bfloat16 but lse and delta; sums and softmax are float,
// p and ds are rounded to bfloat16 before they are multiplied. scale > 0.
// HEAD_SIZE is a define, a multiple of 16. Every matrix begins at a multiple of 16 bytes.
// Launch: block 128, grid (heads, B, ceil(T/64)), twice as deep for attention_mma_backward. Depth
// is the slowest index, so that the blocks with the most work of all heads start first.
// A warp owns 16 queries (or keys) as fragments in registers; the other side comes through shared
// memory. Who owns keys recomputes p beside who owns queries: no atomics.

#include "common/attention_mma.cuh"  // tiles, products, rows
#include "common/mma.cuh"            // fragments, asynchronous copies
#include "common/unroll.cuh"         // VECTOR

#define PART 32         // rows of a tile that backward takes at a time
#define MOST_FUSED 256  // longest T of attention_mma_backward
#define FORWARD_BLOCKS (HEAD_SIZE > 64 ? 2 : 4)  // on a multiprocessor at once: caps the registers
#define LOWEST -3.0e38f // stands for minus infinity, which NVRTC has no constant for
#define LOG2_E 1.44269504f

// One tile of keys. power_scale: scale * log2(e). On the diagonal, keys after a query are masked,
// and sixteen keys after all queries of the warp are left out.
template <bool DIAGONAL>
__device__ __forceinline__ void forward_tile(
    float (&sums)[COLUMNS][4], float (&peak)[2], float (&total)[2], const unsigned (&q)[DEPTH][4],
    const Tile& k, const Tile& v, int first, Lane me, float power_scale)
{
    float s[TILE / 8][4];
    int reach = me.top + WARP_ROWS - first;  // keys of the tile that a row of the warp sees
    fill_sums(s, 0.0f, 0.0f);
    if (!DIAGONAL) multiply_rows<TILE / 8>(s, q, k);
    VECTOR for (int j = 0; j < TILE && DIAGONAL; j += 16) {
        if (j < reach) multiply_rows<2>(s + j / 8, q, k + j);
    }
    if (DIAGONAL) mask(s, first + me.column, me, 1, LOWEST);
    VECTOR for (int half = 0; half < 2; half++) {
        float top = peak[half];
        VECTOR for (int n = 0; n < TILE / 8; n++) {
            top = fmaxf(top, fmaxf(s[n][2 * half], s[n][2 * half + 1]));
        }
        top = row_peak(top);
        float shrink = power_of_two((peak[half] - top) * power_scale), base = top * power_scale;
        peak[half] = top;
        total[half] *= shrink;
        VECTOR for (int n = 0; n < COLUMNS; n++) {
            sums[n][2 * half] *= shrink;
            sums[n][2 * half + 1] *= shrink;
        }
        VECTOR for (int e = 0; e < TILE / 4; e++) {
            float& p = s[e / 2][2 * half + e % 2];
            p = power_of_two(fmaf(p, power_scale, -base));
            total[half] += p;
        }
    }
    VECTOR for (int j = 0; j < TILE; j += 16) {
        if (!DIAGONAL || j < reach) add_weighted(sums, s + j / 8, v + j);
    }
}

// Overwrites out and lse. The softmax runs along the keys with a running peak and sum (Milakov,
// Gimelshein 2018).
extern "C" __global__ void __launch_bounds__(128, FORWARD_BLOCKS) attention_mma_forward(
    __nv_bfloat16* __restrict__ out, float* __restrict__ lse,
    const __nv_bfloat16* __restrict__ qkv, int T, float scale)
{
    __shared__ Tiles tiles;
    int block_row = (gridDim.z - 1 - blockIdx.z) * ROWS;  // the longest rows first: a shorter tail
    Head h = head_of_block(T);
    Lane me = lane_of_block(block_row);
    const __nv_bfloat16 *q_at = qkv + h.first, *k_at = q_at + h.C;
    int end = block_row + ROWS < T ? block_row + ROWS : T;
    Source keys = {k_at, h.stride, k_at + h.C, h.stride, end};
    start_first_tiles(tiles, keys, 0);

    unsigned q[DEPTH][4];
    float sums[COLUMNS][4], peak[2] = {LOWEST, LOWEST}, total[2] = {0.0f, 0.0f};
    load_rows(q, q_at, h.stride, me, T);
    fill_sums(sums, 0.0f, 0.0f);
    for (int first = 0, stage = 0; first < end; first += TILE, stage = stage_after(stage)) {
        wait_for_tile();
        start_tile_ahead(tiles, stage, keys, first);
        const Tile &k = tiles.first[stage], &v = tiles.second[stage];
        if (first + TILE <= block_row) {
            forward_tile<false>(sums, peak, total, q, k, v, first, me, scale * LOG2_E);
        } else {
            forward_tile<true>(sums, peak, total, q, k, v, first, me, scale * LOG2_E);
        }
    }
    VECTOR for (int half = 0; half < 2; half++) {
        total[half] = row_sum(total[half]);
        int row = me.row + 8 * half;
        if (row < T && me.column == 0) {
            lse[h.lse_first + row] = peak[half] * scale + logf(total[half]);
        }
        total[half] = 1.0f / total[half];
    }
    store_rows(out + h.out_first, h.C, sums, total, me, T);
}

// The queries block_row .. block_row+ROWS: their third of dqkv, and delta.
__device__ __forceinline__ void backward_query(
    Tiles& tiles, __nv_bfloat16* dqkv, float* delta, const __nv_bfloat16* dout,
    const __nv_bfloat16* qkv, const __nv_bfloat16* out, const float* lse, int T, float scale,
    int block_row)
{
    Head h = head_of_block(T);
    Lane me = lane_of_block(block_row);
    const __nv_bfloat16 *q_at = qkv + h.first, *k_at = q_at + h.C, *g_at = dout + h.out_first;
    int end = block_row + ROWS < T ? block_row + ROWS : T;
    Source keys = {k_at, h.stride, k_at + h.C, h.stride, end};
    start_first_tiles(tiles, keys, 0);

    unsigned q[DEPTH][4], g[DEPTH][4];
    float dq[COLUMNS][4], own_delta[2], own_lse[2], factors[2] = {scale, scale};
    load_rows(q, q_at, h.stride, me, T);
    load_rows(g, g_at, h.C, me, T);
    fill_sums(dq, 0.0f, 0.0f);
    VECTOR for (int half = 0; half < 2; half++) {
        int row = me.row + 8 * half;
        size_t at = row * h.C;
        own_delta[half] = row_delta(g_at + at, out + h.out_first + at, row < T);
        own_lse[half] = row < T ? lse[h.lse_first + row] * LOG2_E : 0.0f;
        if (row < T && me.column == 0) delta[h.lse_first + row] = own_delta[half];
    }
    for (int first = 0, stage = 0; first < end; first += TILE, stage = stage_after(stage)) {
        wait_for_tile();
        start_tile_ahead(tiles, stage, keys, first);
        for (int part = 0; part < TILE; part += PART) {
            if (first + part >= me.top + WARP_ROWS) break;  // keys after all queries of the warp
            float s[PART / 8][4], ds[PART / 8][4];
            fill_sums(s, 0.0f, 0.0f);
            fill_sums(ds, -own_delta[0], -own_delta[1]);
            multiply_rows<PART / 8>(s, q, tiles.first[stage] + part);
            multiply_rows<PART / 8>(ds, g, tiles.second[stage] + part);
            VECTOR for (int e = 0; e < PART / 2; e++) {
                int n = e / 4, r = e % 4;
                ds[n][r] *= power_of_two(fmaf(s[n][r], scale * LOG2_E, -own_lse[r / 2]));
            }
            if (first + part + PART > me.top) mask(ds, first + part + me.column, me, 1, 0.0f);
            VECTOR for (int j = 0; j < PART; j += 16) {
                add_weighted(dq, ds + j / 8, tiles.first[stage] + part + j);
            }
        }
    }
    store_rows(dqkv + h.first, h.stride, dq, factors, me, T);
}

// lse and delta of the queries in shared memory: of all from the block's first key on if FUSED,
// else of those in the stages.
template <bool FUSED>
struct QueryNumbers {
    static const int count = FUSED ? MOST_FUSED : STAGES * TILE;
    __align__(8) float lse[count];
    __align__(8) float delta[count];
};

// Without FUSED: starts the copies for the tile at `row`, part of the batch that is closed next.
template <bool FUSED>
__device__ __forceinline__ void start_numbers(
    QueryNumbers<FUSED>& numbers, int stage, const float* lse, const float* delta, int row, int T)
{
    if (FUSED || threadIdx.x >= TILE) return;
    int slot = stage * TILE + threadIdx.x, query = row + threadIdx.x;
    start_copy_word(shared_address(&numbers.lse[slot]), lse + query, query < T);
    start_copy_word(shared_address(&numbers.delta[slot]), delta + query, query < T);
}

// With FUSED: computes delta anew, for it may not be in memory yet.
template <bool FUSED>
__device__ __forceinline__ void find_numbers(
    QueryNumbers<FUSED>& numbers, const float* lse, const __nv_bfloat16* dout,
    const __nv_bfloat16* out, size_t C, int block_row, int T)
{
    VECTOR for (int i = 0; i < (FUSED ? MOST_FUSED : 0); i += THREADS / 4) {
        if (block_row + i / TILE * TILE >= T) break;  // whole tiles: zeros past the end
        int slot = i + threadIdx.x / 4, row = block_row + slot;
        float sum = row_delta(dout + row * C, out + row * C, row < T);
        if (threadIdx.x % 4 == 0) {
            numbers.lse[slot] = row < T ? lse[row] : 0.0f;
            numbers.delta[slot] = sum;
        }
    }
}

// The keys block_row .. block_row+ROWS: their thirds of dqkv.
template <bool FUSED>
__device__ __forceinline__ void backward_key(
    Tiles& tiles, QueryNumbers<FUSED>& numbers, __nv_bfloat16* dqkv, const float* delta,
    const __nv_bfloat16* dout, const __nv_bfloat16* qkv, const __nv_bfloat16* out, const float* lse,
    int T, float scale, int block_row)
{
    Head h = head_of_block(T);
    Lane me = lane_of_block(block_row);
    const __nv_bfloat16 *k_at = qkv + h.first + h.C, *g_at = dout + h.out_first;
    Source queries = {qkv + h.first, h.stride, g_at, h.C, T};
    lse += h.lse_first;
    delta += h.lse_first;
    VECTOR for (int stage = 0; stage < STAGES - 1; stage++) {
        start_numbers(numbers, stage, lse, delta, block_row + stage * TILE, T);
    }
    start_first_tiles(tiles, queries, block_row);

    unsigned k[DEPTH][4], v[DEPTH][4];
    float dk[COLUMNS][4], dv[COLUMNS][4], for_dk[2] = {scale, scale}, for_dv[2] = {1.0f, 1.0f};
    load_rows(k, k_at, h.stride, me, T);
    load_rows(v, k_at + h.C, h.stride, me, T);
    find_numbers(numbers, lse, g_at, out + h.out_first, h.C, block_row, T);
    fill_sums(dk, 0.0f, 0.0f);
    fill_sums(dv, 0.0f, 0.0f);
    for (int first = block_row, stage = 0; first < T; first += TILE, stage = stage_after(stage)) {
        wait_for_tile();
        int ahead = first + (STAGES - 1) * TILE;
        start_numbers(numbers, stage_before(stage), lse, delta, ahead, T);
        start_tile_ahead(tiles, stage, queries, first);
        for (int part = 0; part < TILE; part += PART) {
            int query = first + part;
            if (query + PART <= me.top) continue;  // queries before all keys of the warp
            int slot = (FUSED ? first - block_row : stage * TILE) + part + me.column;
            float p[PART / 8][4], ds[PART / 8][4];
            fill_sums(p, 0.0f, 0.0f);
            VECTOR for (int n = 0; n < PART / 8; n++) {
                ds[n][0] = ds[n][2] = -numbers.delta[slot + 8 * n];
                ds[n][1] = ds[n][3] = -numbers.delta[slot + 8 * n + 1];
            }
            multiply_rows<PART / 8>(p, k, tiles.first[stage] + part);
            multiply_rows<PART / 8>(ds, v, tiles.second[stage] + part);
            VECTOR for (int e = 0; e < PART / 2; e++) {
                int n = e / 4, r = e % 4;
                float base = numbers.lse[slot + 8 * n + r % 2] * LOG2_E;
                // past the end q, dout, lse and delta are zeros and add nothing
                p[n][r] = power_of_two(fmaf(p[n][r], scale * LOG2_E, -base));
            }
            if (query < me.top + WARP_ROWS) mask(p, query + me.column, me, -1, 0.0f);
            VECTOR for (int e = 0; e < PART / 2; e++) ds[e / 4][e % 4] *= p[e / 4][e % 4];
            VECTOR for (int j = 0; j < PART; j += 16) {
                add_weighted(dv, p + j / 8, tiles.second[stage] + part + j);
                add_weighted(dk, ds + j / 8, tiles.first[stage] + part + j);
            }
        }
    }
    __nv_bfloat16* to = dqkv + h.first + h.C;
    store_rows(to, h.stride, dk, for_dk, me, T);
    store_rows(to + h.C, h.stride, dv, for_dv, me, T);
}

// T <= 256: overwrites dqkv and delta at once; even blocks own keys, odd ones queries.
extern "C" __global__ void __launch_bounds__(128) attention_mma_backward(
    __nv_bfloat16* __restrict__ dqkv, float* __restrict__ delta,
    const __nv_bfloat16* __restrict__ dout, const __nv_bfloat16* __restrict__ qkv,
    const __nv_bfloat16* __restrict__ out, const float* __restrict__ lse, int T, float scale)
{
    __shared__ Tiles tiles;
    __shared__ QueryNumbers<true> numbers;
    int block = blockIdx.z / 2;  // the longest of both first
    if (blockIdx.z % 2 == 0) {
        backward_key<true>(
            tiles, numbers, dqkv, delta, dout, qkv, out, lse, T, scale, block * ROWS);
    } else {
        int block_row = (gridDim.z / 2 - 1 - block) * ROWS;
        backward_query(tiles, dqkv, delta, dout, qkv, out, lse, T, scale, block_row);
    }
}

// Any T, in two kernels. Overwrites delta, and the q third of dqkv.
extern "C" __global__ void __launch_bounds__(128) attention_mma_backward_query(
    __nv_bfloat16* __restrict__ dqkv, float* __restrict__ delta,
    const __nv_bfloat16* __restrict__ dout, const __nv_bfloat16* __restrict__ qkv,
    const __nv_bfloat16* __restrict__ out, const float* __restrict__ lse, int T, float scale)
{
    __shared__ Tiles tiles;
    int block_row = (gridDim.z - 1 - blockIdx.z) * ROWS;
    backward_query(tiles, dqkv, delta, dout, qkv, out, lse, T, scale, block_row);
}

// After it: overwrites the k and v thirds of dqkv.
extern "C" __global__ void __launch_bounds__(128) attention_mma_backward_key(
    __nv_bfloat16* __restrict__ dqkv, const float* __restrict__ delta,
    const __nv_bfloat16* __restrict__ dout, const __nv_bfloat16* __restrict__ qkv,
    const float* __restrict__ lse, int T, float scale)
{
    __shared__ Tiles tiles;
    __shared__ QueryNumbers<false> numbers;
    backward_key<false>(
        tiles, numbers, dqkv, delta, dout, qkv, nullptr, lse, T, scale, blockIdx.z * ROWS);
}
