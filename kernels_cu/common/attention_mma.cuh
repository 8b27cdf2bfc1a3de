// Parts of attention_mma.cu: where a block and its threads stand, tiles of the other side in shared
// memory, and the products of a warp's 16 rows with them.
#pragma once

#include "common/mma.cuh"     // fragments, asynchronous copies
#include "common/unroll.cuh"  // VECTOR

#ifndef HEAD_SIZE
#error "attention_mma.cu needs -DHEAD_SIZE=<channels of one head>, a multiple of 16"
#endif

#define WARP_ROWS 16
#define ROWS 64                       // queries or keys a block owns
#define THREADS 128
#define TILE (HEAD_SIZE > 64 ? 32 : 64)  // rows of the other side in a stage of shared memory
#define STAGES (HEAD_SIZE > 32 ? 2 : 3)
#define PITCH (HEAD_SIZE + 8)         // an odd number of 16 bytes: no bank is asked twice
#define DEPTH (HEAD_SIZE / 16)        // fragments across a head
#define COLUMNS (HEAD_SIZE / 8)       // tiles of sums across a head

typedef __nv_bfloat16 Tile[TILE][PITCH];

struct Tiles {  // two matrices of the other side
    __align__(16) Tile first[STAGES];
    __align__(16) Tile second[STAGES];
};

struct Head {
    size_t stride;     // of qkv rows
    size_t first;      // offset of this head's q in row 0 of its sequence
    size_t out_first;  // the same in out
    size_t C;
    size_t lse_first;  // offset of this head's lse and delta
};

// Where a thread's part of its warp's sums lies: rows g and g + 8, columns 2t and 2t + 1.
struct Lane {
    int row;     // g, in the sequence
    int column;  // 2t
    int top;     // the warp's first row in the sequence
};

__device__ __forceinline__ Head head_of_block(int T)
{
    Head h;
    int heads = gridDim.x, head = blockIdx.x, b = blockIdx.y;
    h.C = (size_t)heads * HEAD_SIZE;
    h.stride = 3 * h.C;
    h.first = (size_t)b * T * h.stride + head * HEAD_SIZE;
    h.out_first = (size_t)b * T * h.C + head * HEAD_SIZE;
    h.lse_first = ((size_t)b * heads + head) * T;
    return h;
}

__device__ __forceinline__ Lane lane_of_block(int block_row)
{
    Lane me;
    me.top = block_row + threadIdx.x / 32 * WARP_ROWS;
    me.row = me.top + threadIdx.x % 32 / 4;
    me.column = threadIdx.x % 4 * 2;
    return me;
}

// The warp's 16 rows of a matrix as A tiles; zeros past the end of the sequence.
__device__ __forceinline__ void load_rows(
    unsigned (&a)[DEPTH][4], const __nv_bfloat16* from, size_t stride, Lane me, int T)
{
    VECTOR for (int r = 0; r < 4; r++) {
        int row = me.row + r % 2 * 8;
        const __nv_bfloat16* at = from + row * stride + me.column + r / 2 * 8;
        VECTOR for (int d = 0; d < DEPTH; d++) {
            a[d][r] = row < T ? *reinterpret_cast<const unsigned*>(at + 16 * d) : 0;
        }
    }
}

// sums[row] * factor to the warp's rows of a matrix: factors[0] for row g, factors[1] for g + 8.
__device__ __forceinline__ void store_rows(
    __nv_bfloat16* to, size_t stride, const float (&sums)[COLUMNS][4], const float (&factors)[2],
    Lane me, int T)
{
    int odd = threadIdx.x % 2;
    VECTOR for (int half = 0; half < 2; half++) {
        int row = me.row + 8 * half;
        __nv_bfloat16* at = to + row * stride + 8 * odd + me.column - 2 * odd;
        VECTOR for (int n = 0; n < COLUMNS; n += 2) {
            const float *x = &sums[n][2 * half], *y = &sums[n + 1][2 * half];
            float f = factors[half];
            float4 quad = joined_quad(x[0] * f, x[1] * f, y[0] * f, y[1] * f);
            if (row < T) *reinterpret_cast<uint2*>(at + 8 * n) = pack_quad(quad);
        }
    }
}

// Two matrices of the other side, as they lie in device memory, up to row `end`.
struct Source {
    const __nv_bfloat16* first;
    size_t first_stride;
    const __nv_bfloat16* second;
    size_t second_stride;
    int end;
};

__device__ __forceinline__ int stage_after(int stage)
{
    return stage == STAGES - 1 ? 0 : stage + 1;
}

__device__ __forceinline__ int stage_before(int stage)
{
    return stage == 0 ? STAGES - 1 : stage - 1;
}

// Starts the copy of rows row .. row+TILE of both; zeros past the end.
__device__ __forceinline__ void start_tiles(Tiles& tiles, int stage, const Source& from, int row)
{
    const int step = THREADS / COLUMNS;  // rows that the threads copy at a time
    int own = threadIdx.x / COLUMNS, d = threadIdx.x % COLUMNS * 8;
    if (THREADS % COLUMNS != 0 && own >= step) return;
    SharedAddress first = shared_address(&tiles.first[stage][own][d]);
    SharedAddress second = shared_address(&tiles.second[stage][own][d]);
    const __nv_bfloat16* first_from = from.first + (row + own) * from.first_stride + d;
    const __nv_bfloat16* second_from = from.second + (row + own) * from.second_stride + d;
    VECTOR for (int r = 0; r < TILE; r += step) {
        if (TILE % step != 0 && own + r >= TILE) break;
        bool exists = row + own + r < from.end;
        start_copy(first + r * PITCH * 2, first_from + r * from.first_stride, exists);
        start_copy(second + r * PITCH * 2, second_from + r * from.second_stride, exists);
    }
}

// The copies run STAGES-1 tiles ahead of their use, one batch a tile; batches past the end are
// empty, so that the number of newer ones stays the same.
__device__ __forceinline__ void start_first_tiles(Tiles& tiles, const Source& from, int row)
{
    VECTOR for (int stage = 0; stage < STAGES - 1; stage++) {
        if (row + stage * TILE < from.end) start_tiles(tiles, stage, from, row + stage * TILE);
        close_batch();
    }
}

__device__ __forceinline__ void wait_for_tile()
{
    wait_for_batches<STAGES - 2>();
    __syncthreads();  // all threads' copies have come, and all are done with the tile before
}

// In the place of the tile before `row`, which lies in `stage`.
__device__ __forceinline__ void start_tile_ahead(
    Tiles& tiles, int stage, const Source& from, int row)
{
    int ahead = row + (STAGES - 1) * TILE;
    if (ahead < from.end) start_tiles(tiles, stage_before(stage), from, ahead);
    close_batch();
}

// s [16,8N] += a [16,HEAD_SIZE] times the transpose of 8N rows of a tile.
template <int N>
__device__ __forceinline__ void multiply_rows(
    float (*s)[4], const unsigned (&a)[DEPTH][4], const __nv_bfloat16 (*rows)[PITCH])
{
    int lane = threadIdx.x % 32;
    SharedAddress at = shared_address(&rows[lane / 16 * 8 + lane % 8][lane / 8 % 2 * 8]);
    VECTOR for (int d = 0; d < DEPTH; d++) {
        VECTOR for (int n = 0; n < N; n += 2) {
            unsigned b[4];
            load_matrices(b, at + (n * 8 * PITCH + d * 16) * 2);
            multiply_add(s[n], a[d], b[0], b[1]);
            multiply_add(s[n + 1], a[d], b[2], b[3]);
        }
    }
}

// sums [16,HEAD_SIZE] += p [16,16] times 16 rows of a tile; p is two tiles of sums.
__device__ __forceinline__ void add_weighted(
    float (&sums)[COLUMNS][4], const float (*p)[4], const __nv_bfloat16 (*rows)[PITCH])
{
    int lane = threadIdx.x % 32;
    SharedAddress at = shared_address(&rows[lane % 16][lane / 16 * 8]);
    const unsigned a[4] = {pack_pair(p[0][0], p[0][1]), pack_pair(p[0][2], p[0][3]),
                           pack_pair(p[1][0], p[1][1]), pack_pair(p[1][2], p[1][3])};
    VECTOR for (int n = 0; n < COLUMNS; n += 2) {
        unsigned b[4];
        load_transposed(b, at + n * 8 * 2);
        multiply_add(sums[n], a, b[0], b[1]);
        multiply_add(sums[n + 1], a, b[2], b[3]);
    }
}

template <int N>
__device__ __forceinline__ void fill_sums(float (&sums)[N][4], float upper, float lower)
{
    VECTOR for (int n = 0; n < N; n++) {
        sums[n][0] = sums[n][1] = upper;
        sums[n][2] = sums[n][3] = lower;
    }
}

// Puts `value` where a key comes after its query. x: 8N columns, of which the lane's begin at
// `column`; side 1: the columns are keys, -1: queries.
template <int N>
__device__ __forceinline__ void mask(float (&x)[N][4], int column, Lane me, int side, float value)
{
    VECTOR for (int n = 0; n < N; n++) {
        VECTOR for (int r = 0; r < 4; r++) {
            if (side * (column + 8 * n + r % 2 - me.row - r / 2 * 8) > 0) x[n][r] = value;
        }
    }
}

// The four lanes that share a row: their sum, their greatest.
__device__ __forceinline__ float row_sum(float x)
{
    x += __shfl_xor_sync(ALL_LANES, x, 1);
    return x + __shfl_xor_sync(ALL_LANES, x, 2);
}

__device__ __forceinline__ float row_peak(float x)
{
    x = fmaxf(x, __shfl_xor_sync(ALL_LANES, x, 1));
    return fmaxf(x, __shfl_xor_sync(ALL_LANES, x, 2));
}

__device__ __forceinline__ float add_products(unsigned a, unsigned b, float sum)
{
    return fmaf(low_of(a), low_of(b), fmaf(high_of(a), high_of(b), sum));
}

// dout . out of one row: each of four neighbouring lanes takes every fourth 16 bytes.
__device__ __forceinline__ float row_delta(
    const __nv_bfloat16* dout, const __nv_bfloat16* out, bool exists)
{
    float sum = 0.0f;
    VECTOR for (int d = threadIdx.x % 4 * 8; d < HEAD_SIZE; d += 32) {
        if (!exists) continue;
        uint4 a = *reinterpret_cast<const uint4*>(dout + d);
        uint4 b = *reinterpret_cast<const uint4*>(out + d);
        sum = add_products(a.x, b.x, add_products(a.y, b.y, sum));
        sum = add_products(a.z, b.z, add_products(a.w, b.w, sum));
    }
    return row_sum(sum);
}
