// What the kernels of the state space layer share (ssd.cu, ssd_backward.cu): the cut into chunks,
// and a sum of outer products over the steps of one.
#pragma once

#include "common/quad.cuh"    // quads
#include "common/unroll.cuh"  // UNROLL

#define CHUNK 32          // time steps
#define CHUNK_THREADS 64  // block: a thread for each 4x4 tile of [CHUNK,CHUNK]

// Four rows of a matrix, one quad each.
struct Tile {
    float4 row[4];
};

__device__ __forceinline__ Tile zero_tile()
{
    Tile tile;
    tile.row[0] = tile.row[1] = tile.row[2] = tile.row[3] = same_quad(0.0f);
    return tile;
}

// tile.row[i] += a[i] * b
__device__ __forceinline__ void add_outer(Tile& tile, float4 a, float4 b)
{
    tile.row[0] = fma_quad(same_quad(a.x), b, tile.row[0]);
    tile.row[1] = fma_quad(same_quad(a.y), b, tile.row[1]);
    tile.row[2] = fma_quad(same_quad(a.z), b, tile.row[2]);
    tile.row[3] = fma_quad(same_quad(a.w), b, tile.row[3]);
}

// tile.row[i][j] += a.row[i] . b.row[j]
__device__ __forceinline__ void add_products(Tile& tile, const Tile& a, const Tile& b)
{
    UNROLL for (int i = 0; i < 4; i++) {
        tile.row[i].x += dot_quad(a.row[i], b.row[0]);
        tile.row[i].y += dot_quad(a.row[i], b.row[1]);
        tile.row[i].z += dot_quad(a.row[i], b.row[2]);
        tile.row[i].w += dot_quad(a.row[i], b.row[3]);
    }
}

// Four columns of rows first .. first+3; zeros for rows from `rows` on. valid: of the columns.
__device__ __forceinline__ Tile load_tile(
    const float* from, size_t stride, int first, int rows, int column, int valid)
{
    Tile tile;
    UNROLL for (int i = 0; i < 4; i++) {
        const float* at = from + (first + i) * stride + column;
        tile.row[i] = first + i < rows ? load_quad(at, valid) : same_quad(0.0f);
    }
    return tile;
}

__device__ __forceinline__ void store_tile(
    float* to, size_t stride, int first, int rows, int column, int valid, const Tile& tile)
{
    UNROLL for (int i = 0; i < 4 && first + i < rows; i++) {
        store_quad(to + (first + i) * stride + column, tile.row[i], valid);
    }
}

// A chunk of one head of one sequence, from a block of grid (chunks, H, B).
struct Chunk {
    int rows;          // time steps that exist, 1 to CHUNK
    size_t step;       // the first of them, in [B,T]
    size_t head_step;  // the same in [B,T,H]
    size_t state;      // the chunk in [B,chunks,H]
    size_t scores;     // the same in [B,chunks]
};

__device__ __forceinline__ Chunk chunk_of_block(int T)
{
    Chunk k;
    int chunk = blockIdx.x, H = gridDim.y, h = blockIdx.y, b = blockIdx.z;
    k.rows = T - chunk * CHUNK < CHUNK ? T - chunk * CHUNK : CHUNK;
    k.step = (size_t)b * T + (size_t)chunk * CHUNK;
    k.head_step = k.step * H + h;
    k.scores = (size_t)b * gridDim.x + chunk;
    k.state = k.scores * H + h;
    return k;
}

// Overwrites out [P,N] = sum over the chunk's steps s of weights[s] * left[s] (outer) right[s].
// left: rows of P elements, right: rows of N, with these strides. A thread makes 4x4 results at a
// time.
__device__ __forceinline__ void sum_outer(
    float* out, const float* weights, const float* left, size_t left_stride, const float* right,
    size_t right_stride, int rows, int P, int N)
{
    int columns = (N + 3) / 4, tiles = (P + 3) / 4 * columns;
    for (int i = threadIdx.x; i < tiles; i += blockDim.x) {
        int p = i / columns * 4, n = i % columns * 4;
        int p_valid = quad_valid(p, P), n_valid = quad_valid(n, N);
        Tile sum = zero_tile();
        for (int s = 0; s < rows; s++) {
            float4 a = load_quad(left + s * left_stride + p, p_valid);
            float4 b = load_quad(right + s * right_stride + n, n_valid);
            add_outer(sum, multiply_quad(a, same_quad(weights[s])), b);
        }
        store_tile(out, N, p, P, n, n_valid, sum);
    }
}
