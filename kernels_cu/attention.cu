// Causal self-attention over packed projections, without the [T,T] matrix (Dao et al. 2022).
//
//   s[i,j] = scale * q[i].k[j] for j <= i,   p = softmax(s),   out[i] = sum over j of p[i,j] v[j]
//   lse[i] = log(sum over j of exp(s[i,j]))
//   delta[i] = dout[i].out[i],   ds[i,j] = p[i,j] (dout[i].v[j] - delta[i])
//   dq[i] = scale * sum over j of ds[i,j] k[j],   dk[j] = scale * sum over i of ds[i,j] q[i]
//   dv[j] = sum over i of p[i,j] dout[i]
//
// Shapes: qkv, dqkv [B,T,3C], act_t (q, k, v beside each other, C = heads * HEAD_SIZE, head-major);
// out, dout [B,T,C], act_t; lse, delta [B,heads,T], float32 like all that is computed.
// HEAD_SIZE is a define, a multiple of 4; above 32 the key kernel spills registers (correct,
// slower).
// Launch, all three: block 64, grid (ceil(T/64), heads, B).
// A thread owns one query (or key) and keeps its vectors in registers; the other side comes through
// shared memory 32 rows at a time. Two kernels for backward, one owning queries and one owning
// keys, recompute p: no atomics.

#include "common/act.cuh"     // act_t, load_quad
#include "common/unroll.cuh"  // UNROLL, VECTOR

#ifndef HEAD_SIZE
#error "attention.cu needs -DHEAD_SIZE=<channels of one head>, a multiple of 4"
#endif

#define ROWS 64          // queries or keys a block, one a thread
#define TILE 32          // rows of the other side in shared memory
#define GROUP 8          // of which a thread takes this many at a time: one rescaling a group
#define LOWEST -3.0e38f  // stands for minus infinity, which NVRTC has no constant for

// [channel][row]: the eight rows of a group lie beside each other, for the dot products.
typedef float Columns[HEAD_SIZE][TILE + 4];
// [row][channel], for the sums over rows.
typedef float Rows[TILE][HEAD_SIZE];

// One row of a head, `factor` times; zeros past the end of the sequence.
__device__ __forceinline__ void load_vector(
    float* vector, const act_t* from, bool exists, float factor)
{
    UNROLL for (int d = 0; d < HEAD_SIZE; d += 4) {
        float4 q = exists ? load_quad(from + d, 4) : same_quad(0.0f);
        vector[d + 0] = q.x * factor;
        vector[d + 1] = q.y * factor;
        vector[d + 2] = q.z * factor;
        vector[d + 3] = q.w * factor;
    }
}

__device__ __forceinline__ void store_vector(act_t* to, const float* vector, float factor)
{
    UNROLL for (int d = 0; d < HEAD_SIZE; d += 4) {
        float4 q = make_float4(vector[d], vector[d + 1], vector[d + 2], vector[d + 3]);
        store_quad(to + d, multiply_quad(q, same_quad(factor)), 4);
    }
}

// Rows first .. first+TILE of a head into shared memory, in either or both orders; zeros past the
// end.
__device__ __forceinline__ void load_tile(
    float (*columns)[TILE + 4], float (*rows)[HEAD_SIZE], const act_t* from, size_t stride,
    int first, int T, float factor)
{
    for (int e = threadIdx.x; e < TILE * HEAD_SIZE / 4; e += ROWS) {
        int row = e / (HEAD_SIZE / 4), d = e % (HEAD_SIZE / 4) * 4;
        float4 q = same_quad(0.0f);
        if (first + row < T) q = load_quad(from + (first + row) * stride + d, 4);
        q = multiply_quad(q, same_quad(factor));
        if (columns) {
            columns[d + 0][row] = q.x;
            columns[d + 1][row] = q.y;
            columns[d + 2][row] = q.z;
            columns[d + 3][row] = q.w;
        }
        if (rows) store_quad(&rows[row][d], q, 4);
    }
}

// products[j] = vector . columns[:, first + j]
__device__ __forceinline__ void group_dot(
    float* products, const float* vector, const float (*columns)[TILE + 4], int first)
{
    VECTOR for (int j = 0; j < GROUP; j++) products[j] = 0.0f;
    UNROLL for (int d = 0; d < HEAD_SIZE; d++) {
        const float* column = &columns[d][first];
        float x = vector[d];
        VECTOR for (int j = 0; j < GROUP; j++) products[j] = fmaf(x, column[j], products[j]);
    }
}

// sums[:] += weight * row[:]
__device__ __forceinline__ void add_scaled(float* sums, float weight, const float* row)
{
    VECTOR for (int d = 0; d < HEAD_SIZE; d++) sums[d] = fmaf(weight, row[d], sums[d]);
}

struct Head {
    size_t stride;     // of qkv rows
    size_t first;      // offset of this head's q in row 0 of its sequence
    size_t out_first;  // the same in out
    size_t C;
    size_t lse_first;  // offset of this head's lse and delta
};

__device__ __forceinline__ Head head_of_block(int T)
{
    Head h;
    int heads = gridDim.y, head = blockIdx.y, b = blockIdx.z;
    h.C = (size_t)heads * HEAD_SIZE;
    h.stride = 3 * h.C;
    h.first = (size_t)b * T * h.stride + head * HEAD_SIZE;
    h.out_first = (size_t)b * T * h.C + head * HEAD_SIZE;
    h.lse_first = ((size_t)b * heads + head) * T;
    return h;
}

// Overwrites out and lse. The softmax runs along the keys with a running peak and sum (Milakov,
// Gimelshein 2018).
extern "C" __global__ void __launch_bounds__(64) attention_forward(
    act_t* __restrict__ out, float* __restrict__ lse, const act_t* __restrict__ qkv, int T,
    float scale)
{
    __shared__ __align__(16) Columns k_columns;
    __shared__ __align__(16) Rows v_rows;
    Head h = head_of_block(T);
    int block_row = (gridDim.x - 1 - blockIdx.x) * ROWS;  // the longest rows first: a shorter tail
    int row = block_row + threadIdx.x;
    const act_t* q_at = qkv + h.first;

    float q[HEAD_SIZE], sums[HEAD_SIZE], peak = LOWEST, total = 0.0f;
    load_vector(q, q_at + row * h.stride, row < T, scale);
    VECTOR for (int d = 0; d < HEAD_SIZE; d++) sums[d] = 0.0f;

    for (int first = 0; first < block_row + ROWS && first < T; first += TILE) {
        __syncthreads();  // the last tile has been read
        load_tile(k_columns, nullptr, q_at + h.C, h.stride, first, T, 1.0f);
        load_tile(nullptr, v_rows, q_at + 2 * h.C, h.stride, first, T, 1.0f);
        __syncthreads();
        int stop = row >= T ? 0 : row + 1 - first < TILE ? row + 1 - first : TILE;
        for (int j0 = 0; j0 < stop; j0 += GROUP) {
            float s[GROUP], top = peak;
            group_dot(s, q, k_columns, j0);
            UNROLL for (int j = 0; j < GROUP; j++) {
                if (j0 + j >= stop) s[j] = LOWEST;
                top = fmaxf(top, s[j]);
            }
            float shrink = expf(peak - top);
            peak = top;
            total *= shrink;
            VECTOR for (int d = 0; d < HEAD_SIZE; d++) sums[d] *= shrink;
            UNROLL for (int j = 0; j < GROUP; j++) {
                float p = expf(s[j] - top);
                total += p;
                add_scaled(sums, p, v_rows[j0 + j]);
            }
        }
    }
    if (row >= T) return;
    store_vector(out + h.out_first + row * h.C, sums, 1.0f / total);
    lse[h.lse_first + row] = peak + logf(total);
}

// Overwrites delta, and the q third of dqkv.
extern "C" __global__ void __launch_bounds__(64) attention_backward_query(
    act_t* __restrict__ dqkv, float* __restrict__ delta, const act_t* __restrict__ dout,
    const act_t* __restrict__ qkv, const act_t* __restrict__ out, const float* __restrict__ lse,
    int T, float scale)
{
    __shared__ __align__(16) Columns k_columns;
    __shared__ __align__(16) Columns v_columns;
    __shared__ __align__(16) Rows k_rows;
    Head h = head_of_block(T);
    int block_row = (gridDim.x - 1 - blockIdx.x) * ROWS;
    int row = block_row + threadIdx.x;
    bool exists = row < T;
    const act_t* q_at = qkv + h.first;

    float q[HEAD_SIZE], g[HEAD_SIZE], dq[HEAD_SIZE], own_delta = 0.0f;
    load_vector(dq, out + h.out_first + row * h.C, exists, 1.0f);
    load_vector(g, dout + h.out_first + row * h.C, exists, 1.0f);
    UNROLL for (int d = 0; d < HEAD_SIZE; d++) own_delta = fmaf(dq[d], g[d], own_delta);
    load_vector(q, q_at + row * h.stride, exists, scale);
    VECTOR for (int d = 0; d < HEAD_SIZE; d++) dq[d] = 0.0f;
    float own_lse = exists ? lse[h.lse_first + row] : 0.0f;

    for (int first = 0; first < block_row + ROWS && first < T; first += TILE) {
        __syncthreads();
        load_tile(k_columns, k_rows, q_at + h.C, h.stride, first, T, 1.0f);
        load_tile(v_columns, nullptr, q_at + 2 * h.C, h.stride, first, T, 1.0f);
        __syncthreads();
        int stop = !exists ? 0 : row + 1 - first < TILE ? row + 1 - first : TILE;
        for (int j0 = 0; j0 < stop; j0 += GROUP) {
            float s[GROUP], dp[GROUP];
            group_dot(s, q, k_columns, j0);
            group_dot(dp, g, v_columns, j0);
            UNROLL for (int j = 0; j < GROUP; j++) {
                float p = j0 + j < stop ? expf(s[j] - own_lse) : 0.0f;
                add_scaled(dq, p * (dp[j] - own_delta), k_rows[j0 + j]);
            }
        }
    }
    if (!exists) return;
    store_vector(dqkv + h.first + row * h.stride, dq, scale);
    delta[h.lse_first + row] = own_delta;
}

// Overwrites the k and v thirds of dqkv; delta comes from attention_backward_query, which runs
// before.
extern "C" __global__ void __launch_bounds__(64) attention_backward_key(
    act_t* __restrict__ dqkv, const float* __restrict__ delta, const act_t* __restrict__ dout,
    const act_t* __restrict__ qkv, const float* __restrict__ lse, int T, float scale)
{
    __shared__ __align__(16) Columns q_columns;
    __shared__ __align__(16) Columns g_columns;
    __shared__ __align__(16) Rows q_rows;
    __shared__ __align__(16) Rows g_rows;
    __shared__ float lse_tile[TILE];
    __shared__ float delta_tile[TILE];
    Head h = head_of_block(T);
    int block_row = blockIdx.x * ROWS, row = block_row + threadIdx.x;
    bool exists = row < T;
    const act_t* k_at = qkv + h.first + h.C;

    float k[HEAD_SIZE], v[HEAD_SIZE], dk[HEAD_SIZE], dv[HEAD_SIZE];
    load_vector(k, k_at + row * h.stride, exists, 1.0f);
    load_vector(v, k_at + h.C + row * h.stride, exists, 1.0f);
    VECTOR for (int d = 0; d < HEAD_SIZE; d++) dk[d] = dv[d] = 0.0f;

    for (int first = block_row; first < T; first += TILE) {
        __syncthreads();
        load_tile(q_columns, q_rows, qkv + h.first, h.stride, first, T, scale);
        load_tile(g_columns, g_rows, dout + h.out_first, h.C, first, T, 1.0f);
        if (threadIdx.x < TILE) {
            int i = first + threadIdx.x;
            lse_tile[threadIdx.x] = i < T ? lse[h.lse_first + i] : 0.0f;
            delta_tile[threadIdx.x] = i < T ? delta[h.lse_first + i] : 0.0f;
        }
        __syncthreads();
        int begin = row - first;  // queries from here on see this key
        int stop = !exists ? 0 : T - first < TILE ? T - first : TILE;
        for (int i0 = begin > 0 ? begin / GROUP * GROUP : 0; i0 < stop; i0 += GROUP) {
            float s[GROUP], dp[GROUP];
            group_dot(s, k, q_columns, i0);
            group_dot(dp, v, g_columns, i0);
            UNROLL for (int i = 0; i < GROUP; i++) {
                // past the end of the sequence q and dout are zeros and add nothing
                float p = i0 + i >= begin ? expf(s[i] - lse_tile[i0 + i]) : 0.0f;
                add_scaled(dv, p, g_rows[i0 + i]);
                add_scaled(dk, p * (dp[i] - delta_tile[i0 + i]), q_rows[i0 + i]);
            }
        }
    }
    if (!exists) return;
    act_t* to = dqkv + h.first + h.C + row * h.stride;
    store_vector(to, dk, 1.0f);
    store_vector(to + h.C, dv, 1.0f);
}
