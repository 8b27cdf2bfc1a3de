// Matrix products, row-major: out[m,n] = op(a)[m,k] * op(b)[k,n]. Sums are float32.
//
//   gemm_nn   a [m,k], b [k,n]      gemm_nt   a [m,k], b [n,k]      gemm_tn   a [k,m], b [k,n]
//
// Launch: block 64; grid (ceil(n/64), ceil(m/64), splits), splits = max(1, ceil(k/k_chunk)).
// Slab z sums k in [z*k_chunk, (z+1)*k_chunk) and is written to out + z*m*n. So
//   splits == 1: out is the result; accumulate 0 overwrites, 1 adds to what is there;
//   splits > 1:  out is a workspace [splits,m,n]; accumulate must be 0, and gemm_reduce finishes.
// Two kernels and a fixed order of addition: split-K without atomics, the same bits every time.
//
// Defines: act_t, the type of a and b; out_t, that of out (bfloat16 for bfloat16 operands only);
// ROUND_TF32, float operands rounded to TF32's 10 bits of fraction first. Where out_t is bfloat16,
// splits must be 1 and accumulate 0: partial products come from the kernels with out_t float, and
// gemm_reduce alone rounds.
//
// A thread owns an 8x8 block of out in registers: 16 shared reads feed 64 multiply-adds.

#include "common/act.cuh"     // act_t, quads
#include "common/unroll.cuh"  // UNROLL, VECTOR

#ifndef out_t
#define out_t float
#endif

#define TILE 64      // rows and columns of out for each block
#define DEPTH 64     // k of a pass: long, for its two barriers are dear on the host device
#define THREADS 64
#define SIDE 8       // a thread's block of out
#define PITCH (TILE + 4)  // shared row: a multiple of 4 for float4, and not of 32 banks

// As the multiplier sees a value: to nearest, ties away from zero, as cvt.rna.tf32 rounds.
__device__ __forceinline__ float operand(float x)
{
#ifdef ROUND_TF32
    unsigned int bits = __float_as_uint(x);
    bool finite = (bits & 0x7f800000u) != 0x7f800000u;
    return finite ? __uint_as_float((bits + 0x1000u) & 0xffffe000u) : x;
#else
    return x;
#endif
}

__device__ __forceinline__ float4 operand_quad(float4 q)
{
    return make_float4(operand(q.x), operand(q.y), operand(q.z), operand(q.w));
}

// Fills tile[k][i] from a matrix stored with k as its row, source[k * ld + i]; zeros outside.
__device__ __forceinline__ void load_rows(
    float (*tile)[PITCH], const act_t* source, int ld, int k0, int k_end, int i0, int i_end)
{
    for (int e = threadIdx.x; e < DEPTH * TILE / 4; e += THREADS) {
        int k = e / (TILE / 4), i = e % (TILE / 4) * 4;
        float4 q = same_quad(0.0f);
        if (k0 + k < k_end && i0 + i < i_end) {
            q = load_quad(source + (size_t)(k0 + k) * ld + i0 + i, quad_valid(i0 + i, i_end));
        }
        q = operand_quad(q);
        store_quad(&tile[k][i], q, 4);
    }
}

// Fills tile[k][i] from a matrix stored with k as its column, source[i * ld + k]; zeros outside.
__device__ __forceinline__ void load_columns(
    float (*tile)[PITCH], const act_t* source, int ld, int k0, int k_end, int i0, int i_end)
{
    for (int e = threadIdx.x; e < DEPTH * TILE / 4; e += THREADS) {
        int i = e / (DEPTH / 4), k = e % (DEPTH / 4) * 4;
        float4 q = same_quad(0.0f);
        if (i0 + i < i_end && k0 + k < k_end) {
            q = load_quad(source + (size_t)(i0 + i) * ld + k0 + k, quad_valid(k0 + k, k_end));
        }
        q = operand_quad(q);
        tile[k + 0][i] = q.x;
        tile[k + 1][i] = q.y;
        tile[k + 2][i] = q.z;
        tile[k + 3][i] = q.w;
    }
}

template <bool TRANS_A, bool TRANS_B>
__device__ __forceinline__ void gemm_tile(
    out_t* out, const act_t* a, const act_t* b, int m, int n, int k, int k_chunk, int accumulate)
{
    __shared__ __align__(16) float a_tile[DEPTH][PITCH];
    __shared__ __align__(16) float b_tile[DEPTH][PITCH];
    int m0 = blockIdx.y * TILE, n0 = blockIdx.x * TILE;
    int row = threadIdx.x / (TILE / SIDE) * SIDE, column = threadIdx.x % (TILE / SIDE) * SIDE;
    long long first = (long long)blockIdx.z * k_chunk;
    int k_end = (int)(first + k_chunk < k ? first + k_chunk : k);

    float sum[SIDE][SIDE];
    UNROLL for (int i = 0; i < SIDE; i++)
        for (int j = 0; j < SIDE; j++) sum[i][j] = 0.0f;

    for (int k0 = (int)first; k0 < k_end; k0 += DEPTH) {
        if (TRANS_A) load_rows(a_tile, a, m, k0, k_end, m0, m);
        else load_columns(a_tile, a, k, k0, k_end, m0, m);
        if (TRANS_B) load_columns(b_tile, b, k, k0, k_end, n0, n);
        else load_rows(b_tile, b, n, k0, k_end, n0, n);
        __syncthreads();
        int depth = k_end - k0 < DEPTH ? k_end - k0 : DEPTH;
        for (int kk = 0; kk < depth; kk++) {
            const float* left = &a_tile[kk][row];
            const float* right = &b_tile[kk][column];
            UNROLL for (int i = 0; i < SIDE; i++) {
                float x = left[i];
                VECTOR for (int j = 0; j < SIDE; j++) sum[i][j] = fmaf(x, right[j], sum[i][j]);
            }
        }
        __syncthreads();  // the next pass overwrites the tiles
    }

    out_t* slab = out + (size_t)blockIdx.z * m * n;
    for (int i = 0; i < SIDE && m0 + row + i < m; i++) {
        out_t* to = slab + (size_t)(m0 + row + i) * n + n0 + column;
        if (n0 + column + SIDE <= n && !accumulate) {
            VECTOR for (int j = 0; j < SIDE; j++) to[j] = sum[i][j];
        } else {
            for (int j = 0; j < SIDE && n0 + column + j < n; j++) {
                to[j] = accumulate ? widened(to[j]) + sum[i][j] : sum[i][j];
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(64) gemm_nn(
    out_t* __restrict__ out, const act_t* __restrict__ a, const act_t* __restrict__ b, int m, int n,
    int k, int k_chunk, int accumulate)
{
    gemm_tile<false, false>(out, a, b, m, n, k, k_chunk, accumulate);
}

extern "C" __global__ void __launch_bounds__(64) gemm_nt(
    out_t* __restrict__ out, const act_t* __restrict__ a, const act_t* __restrict__ b, int m, int n,
    int k, int k_chunk, int accumulate)
{
    gemm_tile<false, true>(out, a, b, m, n, k, k_chunk, accumulate);
}

extern "C" __global__ void __launch_bounds__(64) gemm_tn(
    out_t* __restrict__ out, const act_t* __restrict__ a, const act_t* __restrict__ b, int m, int n,
    int k, int k_chunk, int accumulate)
{
    gemm_tile<true, false>(out, a, b, m, n, k, k_chunk, accumulate);
}

// out[i] = (accumulate ? out[i] : 0) + partial[0][i] + partial[1][i] + ...     partial
// [splits,count] Launch: block 128; grid ceil(count/512): four outputs a thread, each summed in the
// order of the splits. accumulate must be 0 where out_t is bfloat16.
extern "C" __global__ void __launch_bounds__(128) gemm_reduce(
    out_t* __restrict__ out, const float* __restrict__ partial, long long count, int splits,
    int accumulate)
{
    long long first = ((long long)blockIdx.x * blockDim.x + threadIdx.x) * 4;
    if (first >= count) return;
    int valid = quad_valid(first, count);
    float4 sum = accumulate ? load_quad(out + first, valid) : same_quad(0.0f);
    for (int z = 0; z < splits; z++) {
        sum = add_quad(sum, load_quad(partial + z * count + first, valid));
    }
    store_quad(out + first, sum, valid);
}
