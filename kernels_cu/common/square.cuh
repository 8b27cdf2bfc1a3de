// Products of matrices of up to 64 x 64 numbers in shared memory, by blocks of 256 threads.
//
// A matrix is a square of 64 x 64 floats; what lies past its rows and columns is 0. A row's quads
// are exchanged by the row's number, so that neither eight rows of one quad nor four rows of eight
// neighbours meet in a bank of shared memory: a product may sum along either index of a square.
// Warp w makes rows w%4*16 .. +15 and columns w/4*32 .. +31 of a product. With g = lane / 4 and
// t = lane % 4 a lane holds, in d[j][e] of a `Part`, row g + e/2*8 and column j*8 + 2t + e%2 of it:
// the fragment of common/mma.cuh.
// The define SQUARE_TF32 chooses what factors are rounded to: 1 to TF32, in tensor cores; 0 not at
// all. Sums are float32, in the order of their terms in the second case.
#pragma once

#include "common/mma.cuh"     // multiply_add_tf32, copies
#include "common/quad.cuh"    // quads
#include "common/unroll.cuh"  // UNROLL

#ifndef SQUARE_TF32
#define SQUARE_TF32 0
#endif

#define SIDE 64
#define SQUARE_THREADS 256  // block
#define SQUARE_ROWS (SQUARE_THREADS / (SIDE / 4))  // filled at a time
#define PART_ROWS 16
#define PART_COLUMNS 32

struct Square {
    float cell[SIDE * SIDE];
};

// Where four neighbours of a row lie.
__device__ __forceinline__ int square_quad(int row, int quad)
{
    return row * SIDE + ((quad ^ ((row << 1 & 6) | (row >> 2 & 1))) << 2);
}

__device__ __forceinline__ int square_at(int row, int column)
{
    return square_quad(row, column >> 2) + (column & 3);
}

// A factor as a product takes it.
__device__ __forceinline__ float factor(float x)
{
#if SQUARE_TF32
    return rounded_tf32(x);
#else
    return x;
#endif
}

// Starts to fill a square with rows x columns numbers, whose rows are `stride` apart. They are
// there after wait_for_batches, make_factors and a barrier.
__device__ __forceinline__ void start_square(
    Square& square, const float* from, size_t stride, int rows, int columns)
{
    bool whole = quad_aligned(from) && stride % 4 == 0 && columns % 4 == 0;
    int row = threadIdx.x / (SIDE / 4), quad = threadIdx.x % (SIDE / 4), column = quad * 4;
    if (whole) {
        UNROLL for (int i = 0; i < SIDE; i += SQUARE_ROWS) {
            bool exists = row + i < rows && column < columns;
            const float* source = exists ? from + (row + i) * stride + column : from;
            start_copy(shared_address(square.cell + square_quad(row + i, quad)), source, exists);
        }
        return;
    }
    _Pragma("unroll 1") for (; row < SIDE; row += SQUARE_ROWS) {
        bool exists = row < rows && column < columns;
        float4 q = same_quad(0.0f);
        if (exists) q = load_quad(from + row * stride + column, quad_valid(column, columns));
        store_quad(square.cell + square_quad(row, quad), q, 4);
    }
}

// Makes factors of what this thread has filled of a square, once each, and not in every product.
__device__ __forceinline__ void make_factors(Square& square)
{
#if SQUARE_TF32
    int row = threadIdx.x / (SIDE / 4), quad = threadIdx.x % (SIDE / 4);
    UNROLL for (int i = 0; i < SIDE; i += SQUARE_ROWS) {
        float* at = square.cell + square_quad(row + i, quad);
        float4 q = load_quad(at, 4);
        store_quad(at, make_float4(factor(q.x), factor(q.y), factor(q.z), factor(q.w)), 4);
    }
#endif
}

// What a lane holds of a product, and where that lies.
struct Part {
    int row, column;  // of the warp's first element
    int g, t;
    float d[4][4];
};

__device__ __forceinline__ Part empty_part()
{
    Part part;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    part.row = warp % 4 * PART_ROWS;
    part.column = warp / 4 * PART_COLUMNS;
    part.g = lane / 4;
    part.t = lane % 4;
    UNROLL for (int j = 0; j < 4; j++) {
        UNROLL for (int e = 0; e < 4; e++) part.d[j][e] = 0.0f;
    }
    return part;
}

__device__ __forceinline__ int row_of(const Part& part, int e)
{
    return part.row + part.g + e / 2 * 8;
}

__device__ __forceinline__ int column_of(const Part& part, int j, int e)
{
    return part.column + j * 8 + part.t * 2 + e % 2;
}

#if SQUARE_TF32

// part += A B of factors, summed over first <= k < stop, multiples of 8. A[i][k] is a[i][k], or
// a[k][i] if A_TURNED; B[k][j] is b[k][j], or b[j][k] if B_TURNED. All lanes of a warp take part.
template <bool A_TURNED, bool B_TURNED>
__device__ __forceinline__ void add_product(
    Part& part, const Square& a, const Square& b, int first, int stop)
{
    int g = part.g, t = part.t;
    _Pragma("unroll 2") for (int k = first; k < stop; k += 8) {
        float left[4];
        UNROLL for (int r = 0; r < 4; r++) {
            int row = part.row + g + r % 2 * 8, at = k + t + r / 2 * 4;
            left[r] = a.cell[A_TURNED ? square_at(at, row) : square_at(row, at)];
        }
        UNROLL for (int j = 0; j < 4; j++) {
            float right[2];
            UNROLL for (int r = 0; r < 2; r++) {
                int column = part.column + j * 8 + g, at = k + t + r * 4;
                int place = B_TURNED ? square_at(column, at) : square_at(at, column);
                right[r] = b.cell[place];
            }
            multiply_add_tf32(part.d[j], left, right[0], right[1]);
        }
    }
}

#else

// Numbers k .. k+3 along the sum of one row, or column, of a factor.
template <bool TURNED>
__device__ __forceinline__ float4 along_sum(const Square& square, int row, int k)
{
    const float* cell = square.cell;
    if (!TURNED) return *reinterpret_cast<const float4*>(cell + square_quad(row, k / 4));
    return make_float4(
        cell[square_at(k, row)], cell[square_at(k + 1, row)], cell[square_at(k + 2, row)],
        cell[square_at(k + 3, row)]);
}

// sum + a . b, term after term
__device__ __forceinline__ float add_dot(float sum, float4 a, float4 b)
{
    return fmaf(a.w, b.w, fmaf(a.z, b.z, fmaf(a.y, b.y, fmaf(a.x, b.x, sum))));
}

// As above, for factors as they are.
template <bool A_TURNED, bool B_TURNED>
__device__ __forceinline__ void add_product(
    Part& part, const Square& a, const Square& b, int first, int stop)
{
    for (int k = first; k < stop; k += 4) {
        float4 left[2];
        UNROLL for (int r = 0; r < 2; r++) left[r] = along_sum<A_TURNED>(a, row_of(part, 2 * r), k);
        UNROLL for (int j = 0; j < 4; j++) {
            float4 right[2];
            UNROLL for (int r = 0; r < 2; r++) {
                right[r] = along_sum<!B_TURNED>(b, column_of(part, j, r), k);
            }
            UNROLL for (int e = 0; e < 4; e++) {
                part.d[j][e] = add_dot(part.d[j][e], left[e / 2], right[e % 2]);
            }
        }
    }
}

#endif

// The part of a matrix whose rows are `stride` apart; zeros where it has none.
__device__ __forceinline__ Part load_part(
    const float* from, size_t stride, int rows, int columns)
{
    Part part = empty_part();
    UNROLL for (int j = 0; j < 4; j++) {
        UNROLL for (int e = 0; e < 4; e++) {
            int row = row_of(part, e), column = column_of(part, j, e);
            if (row < rows && column < columns) part.d[j][e] = from[row * stride + column];
        }
    }
    return part;
}

// Writes two neighbours of a row; valid: how many of them exist.
__device__ __forceinline__ void store_pair(float* to, float x, float y, int valid)
{
    if (valid > 1 && ((size_t)to & 7) == 0) {
        *reinterpret_cast<float2*>(to) = make_float2(x, y);
        return;
    }
    if (valid > 0) to[0] = x;
    if (valid > 1) to[1] = y;
}

// Writes the part to rows `stride` apart, where rows and columns exist.
__device__ __forceinline__ void store_part(
    float* to, size_t stride, const Part& part, int rows, int columns)
{
    UNROLL for (int e = 0; e < 4; e += 2) {
        int row = row_of(part, e);
        UNROLL for (int j = 0; j < 4 && row < rows; j++) {
            int column = column_of(part, j, 0);
            float* at = to + row * stride + column;
            store_pair(at, part.d[j][e], part.d[j][e + 1], columns - column);
        }
    }
}
