// A block's tile of a product of bfloat16 matrices by tensor cores, for gemm_mma.cu and
// gemm_mma_norm.cu.
//
// product[i,j] = sum over k of a[i,k] b[j,k]: both operands are rows over the summed depth, or
// TURNED, stored [k][i], which costs nothing: shared memory is read transposed.
// THREADS are four warps, two by two, that own TILE_M/2 x TILE_N/2 each; or as many as WARPS_DOWN,
// WARPS_ACROSS and WARPS_DEEP say, where the last is how many share the depth of a stage, whose
// sums the caller adds. Operands come through STAGES stages of shared memory, TILE_K deep. Rows of
// memory are a multiple of 8 numbers long and begin at multiples of 16 bytes; what lies outside
// reads as zeros.
#pragma once

#include "common/mma.cuh"     // fragments, asynchronous copies
#include "common/unroll.cuh"  // VECTOR

#if !defined(TILE_M) || !defined(TILE_N)
#error "gemm_mma.cu needs -DTILE_M and -DTILE_N: the rows and columns of out for each block"
#endif

#ifndef WARPS_DEEP
#define WARPS_DOWN 2
#define WARPS_ACROSS 2
#define WARPS_DEEP 1
#endif
#define THREADS (32 * WARPS_DOWN * WARPS_ACROSS * WARPS_DEEP)
// Small tiles have few products between two barriers: they come deeper. STAGES: in the 48 KiB that
// every GPU gives unasked.
#ifndef STAGES
#define TILE_K (TILE_M + TILE_N > 96 ? 32 : 64)
#define STAGES (TILE_M + TILE_N > 128 || TILE_M + TILE_N == 96 ? 3 : 4)
#endif
#define A_TILES (TILE_M / (16 * WARPS_DOWN))    // of 16 rows a warp
#define B_TILES (TILE_N / (8 * WARPS_ACROSS))   // of 8 columns a warp
#define ONES 0x3f803f80u                        // 1, 1 in bfloat16

// The room that a tile takes as it is or turned, rows padded to an odd number of 16 bytes.
#define ROOM(tile) ((tile) * (TILE_K + 8) > TILE_K * ((tile) + 8) \
    ? (tile) * (TILE_K + 8) : TILE_K * ((tile) + 8))

struct Stages {
    __align__(16) __nv_bfloat16 a[STAGES][ROOM(TILE_M)];
    __align__(16) __nv_bfloat16 b[STAGES][ROOM(TILE_N)];
};

// Rows first .. end of a matrix, of which the block takes the first tile. row: from one row of
// memory to the next.
struct Operand {
    const __nv_bfloat16* at;
    int row;
    int first;
    int end;
};

struct Sums {
    float tile[A_TILES][B_TILES][4];
    float rows[A_TILES][4];  // of a alone, in every column
};

template <int TILE, bool TURNED>
__device__ __forceinline__ void start_operand(
    __nv_bfloat16* tile, const Operand& from, int k, int k_end)
{
    const int pitch = TURNED ? TILE + 8 : TILE_K + 8;
    const int rows = TURNED ? TILE_K : TILE;          // of memory
    const int pieces = (TURNED ? TILE : TILE_K) / 8;  // of 16 bytes, in such a row
    int own = threadIdx.x / pieces, piece = threadIdx.x % pieces * 8;
    int row = own + (TURNED ? k : from.first), row_end = TURNED ? k_end : from.end;
    int column = piece + (TURNED ? from.first : k), column_end = TURNED ? from.end : k_end;
    SharedAddress to = shared_address(tile + own * pitch + piece);
    const __nv_bfloat16* at = from.at + (size_t)row * from.row + column;
    VECTOR for (int r = 0; r < rows; r += THREADS / pieces) {
        if (rows % (THREADS / pieces) != 0 && own + r >= rows) break;  // of fewer than threads
        bool exists = row + r < row_end && column < column_end;
        start_copy(to + r * pitch * 2, at + (size_t)r * from.row, exists);
    }
}

template <bool TURN_A, bool TURN_B>
__device__ __forceinline__ void start_stage(
    Stages& shared, int stage, const Operand& a, const Operand& b, int k, int k_end)
{
    if (k < k_end) {
        start_operand<TILE_M, TURN_A>(shared.a[stage], a, k, k_end);
        start_operand<TILE_N, TURN_B>(shared.b[stage], b, k, k_end);
    }
    close_batch();  // empty past the end, so that the number of newer batches stays the same
}

// Sixteen rows of a from `row`, sixteen deep from `k`, as an A tile.
template <bool TURNED>
__device__ __forceinline__ void load_a(
    unsigned (&m)[4], const __nv_bfloat16* tile, int row, int k)
{
    int lane = threadIdx.x % 32;
    if (TURNED) {
        k += lane / 16 * 8 + lane % 8;
        row += lane / 8 % 2 * 8;
        load_transposed(m, shared_address(tile + k * (TILE_M + 8) + row));
    } else {
        row += lane % 16;
        k += lane / 16 * 8;
        load_matrices(m, shared_address(tile + row * (TILE_K + 8) + k));
    }
}

// Sixteen rows of b from `row`, sixteen deep from `k`, as two B tiles.
template <bool TURNED>
__device__ __forceinline__ void load_b(
    unsigned (&m)[4], const __nv_bfloat16* tile, int row, int k)
{
    int lane = threadIdx.x % 32;
    if (TURNED) {
        k += lane % 16;
        row += lane / 16 * 8;
        load_transposed(m, shared_address(tile + k * (TILE_N + 8) + row));
    } else {
        row += lane / 16 * 8 + lane % 8;
        k += lane / 8 % 2 * 8;
        load_matrices(m, shared_address(tile + row * (TILE_K + 8) + k));
    }
}

// The warp's first row and column in the block's tile, and the first of its depth in a stage.
__device__ __forceinline__ int warp_row()
{
    return threadIdx.x / (32 * WARPS_ACROSS) % WARPS_DOWN * (TILE_M / WARPS_DOWN);
}

__device__ __forceinline__ int warp_column()
{
    return threadIdx.x / 32 % WARPS_ACROSS * (TILE_N / WARPS_ACROSS);
}

__device__ __forceinline__ int warp_depth()
{
    if (WARPS_DEEP == 1) return 0;
    return threadIdx.x / (THREADS / WARPS_DEEP) * (TILE_K / WARPS_DEEP);
}

template <bool TURN_A, bool TURN_B, bool ADD_ROWS>
__device__ __forceinline__ void add_stage(
    Sums& sums, const __nv_bfloat16* a_tile, const __nv_bfloat16* b_tile)
{
    VECTOR for (int k = 0; k < TILE_K / WARPS_DEEP; k += 16) {
        unsigned a[A_TILES][4], b[B_TILES / 2][4];
        VECTOR for (int i = 0; i < A_TILES; i++) {
            load_a<TURN_A>(a[i], a_tile, warp_row() + 16 * i, warp_depth() + k);
        }
        VECTOR for (int j = 0; j < B_TILES / 2; j++) {
            load_b<TURN_B>(b[j], b_tile, warp_column() + 16 * j, warp_depth() + k);
        }
        VECTOR for (int i = 0; i < A_TILES; i++) {
            VECTOR for (int j = 0; j < B_TILES; j++) {
                multiply_add(sums.tile[i][j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
            }
            if (ADD_ROWS) multiply_add(sums.rows[i], a[i], ONES, ONES);
        }
    }
}

__device__ __forceinline__ float2 load_pair(const float* from)
{
    return *reinterpret_cast<const float2*>(from);
}

__device__ __forceinline__ float2 load_pair(const __nv_bfloat16* from)
{
    unsigned pair = *reinterpret_cast<const unsigned*>(from);
    return make_float2(low_of(pair), high_of(pair));
}

template <class Bias>
__device__ __forceinline__ void start_sums(Sums& sums, const Operand& b, const Bias* bias)
{
    VECTOR for (int j = 0; j < B_TILES; j++) {
        int column = b.first + warp_column() + 8 * j + threadIdx.x % 4 * 2;
        float2 add = make_float2(0.0f, 0.0f);
        if (bias && column < b.end) add = load_pair(bias + column);
        VECTOR for (int i = 0; i < A_TILES; i++) {
            sums.tile[i][j][0] = sums.tile[i][j][2] = add.x;
            sums.tile[i][j][1] = sums.tile[i][j][3] = add.y;
        }
    }
    VECTOR for (int e = 0; e < A_TILES * 4; e++) sums.rows[e / 4][e % 4] = 0.0f;
}

// Overwrites sums with the products over depth k .. k_end, bias [b's rows] added unless it is null,
// and if add_rows with the sums of a's rows.
template <bool TURN_A, bool TURN_B, class Bias = float>
__device__ __forceinline__ void multiply_tiles(
    Sums& sums, Stages& shared, const Operand& a, const Operand& b, int k, int k_end,
    const Bias* bias = nullptr, bool add_rows = false)
{
    VECTOR for (int stage = 0; stage < STAGES - 1; stage++) {
        start_stage<TURN_A, TURN_B>(shared, stage, a, b, k + stage * TILE_K, k_end);
    }
    start_sums(sums, b, bias);
    for (int stage = 0; k < k_end; k += TILE_K) {
        wait_for_batches<STAGES - 2>();
        __syncthreads();  // all threads' copies have come, and all are done with the stage before
        int before = stage == 0 ? STAGES - 1 : stage - 1;
        start_stage<TURN_A, TURN_B>(shared, before, a, b, k + (STAGES - 1) * TILE_K, k_end);
        if (add_rows) add_stage<TURN_A, TURN_B, true>(sums, shared.a[stage], shared.b[stage]);
        else add_stage<TURN_A, TURN_B, false>(sums, shared.a[stage], shared.b[stage]);
        stage = stage == STAGES - 1 ? 0 : stage + 1;
    }
}

// Of each four neighbours of the tile that a thread owns.
template <class T>
struct Quads {
    T at[A_TILES * 2][B_TILES / 2];
};

// The row and column of the thread's first quad; the others are 8 rows and 16 columns on.
__device__ __forceinline__ int first_row(const Operand& a)
{
    return a.first + warp_row() + threadIdx.x % 32 / 4;
}

__device__ __forceinline__ int first_column(const Operand& b)
{
    return b.first + warp_column() + threadIdx.x % 2 * 8 + threadIdx.x % 4 / 2 * 4;
}

// load(row, column) of those that lie in the matrix. Done before the products: they hide the wait,
// and no store that the loads may alias comes between them.
template <class Load>
__device__ __forceinline__ auto load_quads(const Operand& a, const Operand& b, Load load)
{
    Quads<decltype(load(0, 0))> quads = {};
    int row = first_row(a), column = first_column(b);
    VECTOR for (int i = 0; i < A_TILES * 2; i++) {
        VECTOR for (int j = 0; j < B_TILES / 2; j++) {
            bool exists = row + 8 * i < a.end && column + 16 * j < b.end;
            if (exists) quads.at[i][j] = load(row + 8 * i, column + 16 * j);
        }
    }
    return quads;
}

// store(row, column, make(quad, more)) of those that lie in the matrix. A row's are made before the
// first of them is stored, and without a branch, so that the compiler can do them beside each
// other: the latency of one, not of all in turn. A row at a time keeps the registers few.
template <class More, class Make, class Store>
__device__ __forceinline__ void for_each_quad(
    const Sums& sums, const Operand& a, const Operand& b, const Quads<More>& more, Make make,
    Store store)
{
    int row = first_row(a), column = first_column(b);
    VECTOR for (int i = 0; i < A_TILES * 2; i++) {
        decltype(make(float4(), More())) made[B_TILES / 2];
        VECTOR for (int j = 0; j < B_TILES / 2; j++) {
            const float* x = &sums.tile[i / 2][2 * j][i % 2 * 2];
            const float* y = &sums.tile[i / 2][2 * j + 1][i % 2 * 2];
            made[j] = make(joined_quad(x[0], x[1], y[0], y[1]), more.at[i][j]);  // by all lanes
        }
        VECTOR for (int j = 0; j < B_TILES / 2; j++) {
            bool exists = row + 8 * i < a.end && column + 16 * j < b.end;
            if (exists) store(row + 8 * i, column + 16 * j, made[j]);
        }
    }
}

struct Nothing {};

template <class Make, class Store>
__device__ __forceinline__ void for_each_quad(
    const Sums& sums, const Operand& a, const Operand& b, Make make, Store store)
{
    for_each_quad(
        sums, a, b, Quads<Nothing>(), [&](float4 quad, Nothing) { return make(quad); }, store);
}

// Calls store(row, sum) for each row of a.
template <class Store>
__device__ __forceinline__ void for_each_row(const Sums& sums, const Operand& a, Store store)
{
    if (threadIdx.x % 4 != 0 || warp_column() != 0) return;
    VECTOR for (int i = 0; i < A_TILES * 2; i++) {
        int row = a.first + warp_row() + 8 * i + threadIdx.x % 32 / 4;
        if (row < a.end) store(row, sums.rows[i / 2][i % 2 * 2]);
    }
}
