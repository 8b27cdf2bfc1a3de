// A linear layer of 128 columns in bfloat16 by tensor cores, with the layer norm that follows it in
// the same launch: a block owns whole rows, and so mean and variance are taken of what it has just
// summed. gemm_mma.cu has the layers without a norm, layernorm.cu the norms without a layer.
//
//   out = residual + (x weight^T + bias),  y = norm(out)                  forward
//   dy = dz weight,  dx += what the norm makes of dy                       backward
//
// Shapes: C is TILE_N, 128; out, residual, y [M,C]; x [M,K]; weight [C,K], backward [N,C]; dz [M,N];
// dx, narrow, normed [M,C]; bias, scale, shift [C]; mean, rstd [M]. bfloat16: x, weight, y, dz,
// narrow; float: all else, and dy, which stays in registers and is not rounded. K and N are
// multiples of 8; all begin at multiples of 16 bytes. The bits depend on inputs, sizes and TILE_M.
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
