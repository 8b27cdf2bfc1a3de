// A linear layer of 128 columns in bfloat16 by tensor cores, with the layer norm that follows it in
// the same launch: a block owns whole rows, and so mean and variance are taken of what it has just
// summed. gemm_mma.cu has the layers without a norm, layernorm.cu the norms without a layer.
//
//   out = residual + (x weight^T + bias),  y = norm(out)                  forward
//   dy = dz weight,  dx += the norm's gradient of its input from dy        backward
//   sums over each CHUNK rows of dy * xhat and of dy, for scale and shift
//
// Shapes: C is TILE_N, 128; out, residual, y, dx, narrow, normed [M,C]; x [M,K]; dz [M,N]; weight
// [C,K], backward [N,C]; bias, scale, shift [C]; mean, rstd [M]. bfloat16: x, weight, y, dz and
// narrow; float: all else, and dy, which stays in the block and is not rounded. K, N: multiples of
// 8; all begin at multiples of 16 bytes. The bits depend on inputs, sizes and TILE_M alone.
// Launch: block 256, TILE_M rows a block, 16 or 32 (a define); dynamic shared memory of a Stages.
// Eight warps: four beside each other, of 32 columns, by two that share the depth of a stage. 64
// blocks of 32 rows read the weight from L2 half as often as 128 of 16 do, which is what the launch
// is made of at a depth of 512: docs/performance.md.

#define TILE_N 128
#define TILE_K 64
#define STAGES 4
#define WARPS_DOWN 1
#define WARPS_ACROSS 4
#define WARPS_DEEP 2
#define ROW_THREADS 256
#define ROW_LANES (ROW_THREADS / TILE_M)
#define act_t __nv_bfloat16
#include "common/act.cuh"        // quads of bfloat16
#include "common/gemm_mma.cuh"   // tiles of products
#include "common/held_sums.cuh"  // add_to_sums
#include "common/norm.cuh"       // a norm's formulas
#include "common/row_lanes.cuh"  // row_lane
#include "common/row_sums.cuh"   // set_sums, added_sums
#include "common/unroll.cuh"     // UNROLL

#define HELD (TILE_N / COLUMN_STEP)  // quads of a row that a lane has
#define PITCH (TILE_N + 8)           // of a tile's rows: the lanes of a fragment meet all banks
#define CHUNK 16                     // rows whose sums for scale and shift are one

// ---- a tile of sums in shared memory, and a lane's quads of a row ----
// One tile for each share of the depth, in the place of the operands' stages.
typedef float SumTiles[WARPS_DEEP][TILE_M][PITCH];

// The quads of a row of C from `row` on, zeros where the lane has no row.
__device__ __forceinline__ void load_row(float4 (&q)[HELD], const float* row, const RowLane& me)
{
    UNROLL for (int k = 0; k < HELD; k++) {
        const float* at = row + first_column(me) + k * COLUMN_STEP;
        q[k] = me.columns ? load_whole_quad(at) : same_quad(0.0f);
    }
}

template <class T>
__device__ __forceinline__ void store_row(T* row, const float4 (&q)[HELD], const RowLane& me)
{
    UNROLL for (int k = 0; k < HELD; k++) {
        store_whole_quad(row + first_column(me) + k * COLUMN_STEP, q[k]);
    }
}

__device__ __forceinline__ float4* tile_quad(SumTiles& tiles, int share, const RowLane& me, int k)
{
    return reinterpret_cast<float4*>(&tiles[share][me.slot][first_column(me) + k * COLUMN_STEP]);
}

// Puts the warp's sums down; the block's meet behind the second barrier.
__device__ __forceinline__ void put_sums(SumTiles& tiles, const Sums& sums)
{
    int lane = threadIdx.x % 32, row = lane / 4, column = warp_column() + lane % 4 * 2;
    float* to = &tiles[threadIdx.x / (THREADS / WARPS_DEEP)][row][column];
    __syncthreads();  // all are done with the last stage
    VECTOR for (int i = 0; i < A_TILES * 2; i++) {
        VECTOR for (int j = 0; j < B_TILES; j++) {
            const float* pair = &sums.tile[i / 2][j][i % 2 * 2];
            *reinterpret_cast<float2*>(to + 8 * i * PITCH + 8 * j) = make_float2(pair[0], pair[1]);
        }
    }
    __syncthreads();
}

// The lane's quads of its row of the product.
__device__ __forceinline__ void take_row(float4 (&q)[HELD], SumTiles& tiles, const RowLane& me)
{
    UNROLL for (int k = 0; k < HELD; k++) {
        q[k] = add_quad(*tile_quad(tiles, 0, me, k), *tile_quad(tiles, 1, me, k));
    }
}

// ---- forward ----
// Overwrites out, y, and mean and rstd of out's rows as layernorm_residual_forward does; out may be
// residual.
// Launch: see above; grid ceil(M/TILE_M).
extern "C" __global__ void __launch_bounds__(256) linear_mma_norm_forward(
    float* out, __nv_bfloat16* __restrict__ y, float* __restrict__ mean, float* __restrict__ rstd,
    const __nv_bfloat16* __restrict__ x, const __nv_bfloat16* __restrict__ weight,
    const float* __restrict__ bias, const float* residual, const float* __restrict__ scale,
    const float* __restrict__ shift, int M, int K, float epsilon)
{
    extern __shared__ float4 room[];
    __shared__ RowSums row_sums;
    SumTiles& tiles = *reinterpret_cast<SumTiles*>(room);
    RowLane me = row_lane(M, TILE_N);
    size_t at = (size_t)me.row * TILE_N;
    // All that the end reads is under way before the products, which hide the wait.
    float4 q[HELD], add[HELD], old[HELD], w[HELD], b[HELD];
    load_row(old, residual + at, me);
    load_row(add, bias, me);
    load_row(w, scale, me);
    load_row(b, shift, me);
    float first_old = me.columns ? residual[at] : 0.0f, first_add = bias[0];
    Operand left = {x, K, (int)blockIdx.x * TILE_M, M}, right = {weight, K, 0, TILE_N};
    Sums sums;
    multiply_tiles<false, false>(sums, *reinterpret_cast<Stages*>(room), left, right, 0, K);
    put_sums(tiles, sums);

    take_row(q, tiles, me);
    float first = tiles[0][me.slot][0] + tiles[1][me.slot][0];
    float pivot = first_old + (first + first_add), sum = 0.0f, squares = 0.0f;
    UNROLL for (int k = 0; k < HELD; k++) {
        q[k] = add_quad(old[k], add_quad(q[k], add[k]));
        add_deviations(&sum, &squares, q[k], pivot);
    }
    set_sums(row_sums, me, sum, squares);
    ROW_BARRIER();
    float2 both = added_sums(row_sums, me);
    if (me.columns == 0) return;
    float away = both.x / TILE_N, variance = fmaxf(both.y / TILE_N - away * away, 0.0f);
    float row_rstd = 1.0f / sqrtf(variance + epsilon);

    store_row(out + at, q, me);
    UNROLL for (int k = 0; k < HELD; k++) q[k] = normed(q[k], pivot, away, row_rstd, w[k], b[k]);
    store_row(y + at, q, me);
    if (me.lane == 0) {
        mean[me.row] = pivot + away;
        rstd[me.row] = row_rstd;
    }
}

// ---- backward ----
// Overwrites 2C numbers of each chunk's row of partial with the sums over its rows, in order, of
// what the two tiles hold: those for scale, and behind them those for shift.
__device__ __forceinline__ void store_chunks(
    float* partial, const SumTiles& tiles, int M, int stride)
{
    for (int i = threadIdx.x; i < 2 * TILE_N * (TILE_M / CHUNK); i += THREADS) {
        int chunk = i / (2 * TILE_N), part = i / TILE_N % 2, column = i % TILE_N;
        int first = blockIdx.x * TILE_M + chunk * CHUNK;
        if (first >= M && first > 0) return;  // past the last chunk; of no rows there is one
        float sum = 0.0f;
        UNROLL for (int r = 0; r < CHUNK; r++) sum += tiles[part][chunk * CHUNK + r][column];
        partial[(size_t)(first / CHUNK) * stride + part * TILE_N + column] = sum;
    }
}

// Overwrites dx, or adds to it where accumulate is 1, as layernorm_backward of dy does; narrow with
// dx in bfloat16, and of partial [chunks,stride] 2C numbers from the beginning of each row on, as
// layernorm_parameters adds them. normed, mean, rstd: the norm's input and its rows' statistics.
// Launch: see above; grid max(1, ceil(M/TILE_M)).
extern "C" __global__ void __launch_bounds__(256) linear_mma_norm_backward(
    float* dx, __nv_bfloat16* __restrict__ narrow, float* __restrict__ partial,
    const __nv_bfloat16* __restrict__ dz, const __nv_bfloat16* __restrict__ weight,
    const float* __restrict__ normed, const float* __restrict__ scale,
    const float* __restrict__ mean, const float* __restrict__ rstd, int M, int N, int stride,
    int accumulate)
{
    extern __shared__ float4 room[];
    __shared__ RowSums row_sums;
    SumTiles& tiles = *reinterpret_cast<SumTiles*>(room);
    RowLane me = row_lane(M, TILE_N), adding = me;
    adding.columns = accumulate ? me.columns : 0;  // nothing to read where nothing is added to
    size_t at = (size_t)me.row * TILE_N;
    float4 g[HELD], q[HELD], old[HELD], w[HELD];
    load_row(q, normed + at, me);
    load_row(old, dx + at, adding);
    load_row(w, scale, me);
    float m = me.columns ? mean[me.row] : 0.0f, r = me.columns ? rstd[me.row] : 0.0f;
    Operand left = {dz, N, (int)blockIdx.x * TILE_M, M}, right = {weight, TILE_N, 0, TILE_N};
    Sums sums;
    multiply_tiles<false, true>(sums, *reinterpret_cast<Stages*>(room), left, right, 0, N);
    put_sums(tiles, sums);

    take_row(g, tiles, me);
    float sum = 0.0f, product = 0.0f;
    UNROLL for (int k = 0; k < HELD; k++) {
        float4 share = same_quad(0.0f), unused = share;
        add_to_sums(&share, &unused, g[k], q[k], m, r);
        *tile_quad(tiles, 0, me, k) = share;  // where the thread alone has read
        *tile_quad(tiles, 1, me, k) = g[k];
        g[k] = multiply_quad(g[k], w[k]);
        sum += (g[k].x + g[k].y) + (g[k].z + g[k].w);
        product += moment(g[k], q[k], m);
    }
    set_sums(row_sums, me, sum, product * r);
    __syncthreads();
    float2 both = added_sums(row_sums, me);
    float average_g = both.x / TILE_N, average_gx = both.y / TILE_N;
    UNROLL for (int k = 0; k < HELD; k++) {
        old[k] = add_quad(old[k], input_gradient(g[k], q[k], m, r, average_g, average_gx));
    }
    if (me.columns) {
        store_row(dx + at, old, me);
        store_row(narrow + at, old, me);
    }
    store_chunks(partial, tiles, M, stride);
}
