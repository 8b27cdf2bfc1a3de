// Root-mean-square norm of a gated input over the last axis (the norm before Mamba-2's output
// projection, Dao and Gu 2024; RMS norm: Zhang and Sennrich 2019).
//
//   u = x * silu(z),  rstd = 1 / sqrt(average(u^2) + epsilon),  y = u * rstd * weight
//   du = rstd * (g - u * rstd^2 * average(g * u)),  g = dy * weight
//   dx = du * silu(z),  dz = du * x * silu'(z)
//   dweight[c] = sum over rows of dy * u * rstd
//
// Shapes: y [rows,C], act_t; x, z, dx, dz, dy [rows,C]; rstd [rows]; weight, dweight [C]; partial
// [chunks,C], which column_sum_final of bias.cu adds up: no atomics, and the bits repeat. All but y
// is float32.
// z and dz may be columns of a wider matrix: z_row, at least C, is the distance of their rows.
// Sixteen threads share a row. Each holds four quads of every matrix at a time, 256 columns with
// its neighbours: rows up to there are read once, and all their loads are under way together. Where
// quads are not whole it holds one at a time.

#include "common/act.cuh"      // act_t, quads
#include "common/sigmoid.cuh"  // sigmoid
#include "common/unroll.cuh"   // UNROLL

#define LANES 16
#define BLOCK_ROWS 16
#define STEP (4 * LANES)  // columns that the lanes of a row own side by side
#define HELD 4

// One of the threads of a row.
struct Lane {
    int slot, lane;  // row within the block, and thread of the row
    long long row;
    int columns;  // of the row: 0 past the last one, where a thread still must reach the barriers
};

__device__ __forceinline__ Lane lane_of(long long first_row, int rows, int C)
{
    Lane me;
    me.slot = threadIdx.x / LANES;
    me.lane = threadIdx.x % LANES;
    me.row = first_row + me.slot;
    me.columns = me.row < rows ? C : 0;
    return me;
}

__device__ __forceinline__ float4 silu_quad(float4 z)
{
    return multiply_quad(z, sigmoid_quad(z));
}

// The thread's quads of a row at `from`, the first at column c; zeros past the row's end.
template <bool WHOLE, int COUNT>
__device__ __forceinline__ void load_held(float4 (&q)[COUNT], const float* from, int c, int columns)
{
    UNROLL for (int i = 0; i < COUNT; i++) {
        int at = c + i * STEP;
        q[i] = same_quad(0.0f);
        if (at < columns) q[i] = load_quad_of<WHOLE>(from + at, quad_valid(at, columns));
    }
}

template <bool WHOLE, int COUNT>
__device__ __forceinline__ void load_gated(
    float4 (&u)[COUNT], const float* x, const float* z, int c, int columns)
{
    float4 gate[COUNT];
    load_held<WHOLE>(u, x, c, columns);
    load_held<WHOLE>(gate, z, c, columns);
    UNROLL for (int i = 0; i < COUNT; i++) u[i] = multiply_quad(u[i], silu_quad(gate[i]));
}

__device__ __forceinline__ float sum_lanes(const float* lanes)
{
    float sum = 0.0f;
    for (int l = 0; l < LANES; l++) sum += lanes[l];
    return sum;
}

// Whether all quads of rows of C columns, `stride` apart, are whole.
__device__ __forceinline__ bool whole_rows(const float* from, int stride, int C)
{
    return C % 4 == 0 && stride % 4 == 0 && quad_aligned(from);
}

// One row of gated_norm_forward; every thread of the block calls it.
template <bool WHOLE, int COUNT>
__device__ __forceinline__ void norm_row(
    act_t* y, float* rstd, const float* x, const float* z, const float* weight, const Lane& me,
    float (&squares)[BLOCK_ROWS][LANES], int C, float epsilon)
{
    float4 u[COUNT], scale[COUNT];
    float square = 0.0f;
    int first = me.lane * 4;
    for (int c = first; c < me.columns; c += COUNT * STEP) {
        load_gated<WHOLE>(u, x, z, c, C);
        UNROLL for (int i = 0; i < COUNT; i++) square += dot_quad(u[i], u[i]);
    }
    squares[me.slot][me.lane] = square;
    __syncthreads();
    if (me.columns == 0) return;

    float row_rstd = 1.0f / sqrtf(sum_lanes(squares[me.slot]) / C + epsilon);
    for (int c = first; c < C; c += COUNT * STEP) {
        if (C > COUNT * STEP) load_gated<WHOLE>(u, x, z, c, C);
        load_held<WHOLE>(scale, weight, c, C);
        UNROLL for (int i = 0; i < COUNT; i++) {
            int at = c + i * STEP;
            float4 out = multiply_quad(u[i], multiply_quad(scale[i], same_quad(row_rstd)));
            if (at < C) store_quad(y + at, out, quad_valid(at, C));
        }
    }
    if (me.lane == 0) *rstd = row_rstd;
}

// Overwrites y and rstd.
// Launch: block 256, grid ceil(rows/16).
extern "C" __global__ void __launch_bounds__(256) gated_norm_forward(
    act_t* __restrict__ y, float* __restrict__ rstd, const float* __restrict__ x,
    const float* __restrict__ z, const float* __restrict__ weight, int rows, int C, int z_row,
    float epsilon)
{
    __shared__ float squares[BLOCK_ROWS][LANES];
    Lane me = lane_of((long long)blockIdx.x * BLOCK_ROWS, rows, C);
    bool whole = whole_rows(x, C, C) && whole_rows(z, z_row, C) && quad_aligned(weight);
    act_t* to = y + me.row * C;
    x += me.row * C;
    z += me.row * z_row;
    if (whole) {
        norm_row<true, HELD>(to, rstd + me.row, x, z, weight, me, squares, C, epsilon);
    } else {
        norm_row<false, 1>(to, rstd + me.row, x, z, weight, me, squares, C, epsilon);
    }
}

struct BackwardWork {
    float products[BLOCK_ROWS][LANES];
    float4 dweight[BLOCK_ROWS][HELD * LANES];  // of each row, dy * u * rstd
};

// Where a row lies.
struct Row {
    float* dx;
    float* dz;
    const float* dy;
    const float* x;
    const float* z;
};

// What a thread holds of a row in backward.
template <int COUNT>
struct Held {
    float4 x[COUNT], z[COUNT], dy[COUNT];
};

template <bool WHOLE, int COUNT>
__device__ __forceinline__ void load_row(Held<COUNT>& held, const Row& row, int c, int columns)
{
    load_held<WHOLE>(held.x, row.x, c, columns);
    load_held<WHOLE>(held.z, row.z, c, columns);
    load_held<WHOLE>(held.dy, row.dy, c, columns);
}

// Writes dx and dz of the held columns, and their part of dweight to shared memory.
template <bool WHOLE, int COUNT>
__device__ __forceinline__ void write_row(
    BackwardWork& w, const Held<COUNT>& held, const Row& row, const float* weight, const Lane& me,
    int c, float pull, float rstd)
{
    UNROLL for (int i = 0; i < COUNT; i++) {
        int at = c + i * STEP;
        float4 s = sigmoid_quad(held.z[i]), silu = multiply_quad(held.z[i], s);
        float4 u = multiply_quad(held.x[i], silu), scaled = multiply_quad(u, same_quad(rstd));
        w.dweight[me.slot][me.lane + i * LANES] = multiply_quad(held.dy[i], scaled);
        if (at >= me.columns) continue;
        int valid = quad_valid(at, me.columns);
        float4 g = multiply_quad(held.dy[i], load_quad_of<WHOLE>(weight + at, valid));
        float4 du = multiply_quad(fma_quad(u, same_quad(pull), g), same_quad(rstd));
        // silu'(z) = s + z s (1 - s)
        float4 rest = fma_quad(same_quad(-1.0f), s, same_quad(1.0f));
        float4 slope = fma_quad(silu, rest, s);
        store_quad(row.dx + at, multiply_quad(du, silu), valid);
        store_quad(row.dz + at, multiply_quad(du, multiply_quad(held.x[i], slope)), valid);
    }
}

// Sums dweight of COUNT * STEP columns over the block's rows into partial, or adds it there.
template <int COUNT>
__device__ __forceinline__ void sum_rows(
    const BackwardWork& w, float* partial, int first, int C, bool add)
{
    int quad = threadIdx.x, c = first + quad * 4;
    if (quad >= COUNT * LANES || c >= C) return;
    float4 sum = add ? load_quad(partial + c, quad_valid(c, C)) : same_quad(0.0f);
    for (int slot = 0; slot < BLOCK_ROWS; slot++) sum = add_quad(sum, w.dweight[slot][quad]);
    store_quad(partial + c, sum, quad_valid(c, C));
}

// One row of gated_norm_backward; every thread of the block calls it.
template <bool WHOLE, int COUNT>
__device__ __forceinline__ void unnorm_row(
    BackwardWork& w, float* partial, const Row& row, const float* weight, const float* rstd,
    const Lane& me, int C, bool add)
{
    Held<COUNT> held;
    float product = 0.0f, row_rstd = me.columns ? *rstd : 0.0f;
    for (int first = 0; first < C; first += COUNT * STEP) {
        int c = first + me.lane * 4;
        load_row<WHOLE>(held, row, c, me.columns);
        UNROLL for (int i = 0; i < COUNT; i++) {
            int at = c + i * STEP;
            if (at >= me.columns) continue;
            float4 g = multiply_quad(
                held.dy[i], load_quad_of<WHOLE>(weight + at, quad_valid(at, me.columns)));
            product += dot_quad(multiply_quad(held.x[i], silu_quad(held.z[i])), g);
        }
    }
    w.products[me.slot][me.lane] = product;
    __syncthreads();

    float pull = -sum_lanes(w.products[me.slot]) / C * row_rstd * row_rstd;
    for (int first = 0; first < C; first += COUNT * STEP) {
        int c = first + me.lane * 4;
        if (C > COUNT * STEP) load_row<WHOLE>(held, row, c, me.columns);
        write_row<WHOLE>(w, held, row, weight, me, c, pull, row_rstd);
        __syncthreads();
        sum_rows<COUNT>(w, partial, first, C, add);
        __syncthreads();
    }
}

// Overwrites dx, dz, and partial[chunk] = dweight summed over the chunk's rows. dx may be dy.
// Launch: block 256, grid chunks; a chunk is `turns` times 16 rows.
extern "C" __global__ void __launch_bounds__(256) gated_norm_backward(
    float* dx, float* __restrict__ dz, float* __restrict__ partial, const float* dy,
    const float* __restrict__ x, const float* __restrict__ z, const float* __restrict__ weight,
    const float* __restrict__ rstd, int rows, int C, int z_row, int turns)
{
    __shared__ BackwardWork w;
    bool whole = whole_rows(x, C, C) && whole_rows(z, z_row, C) && quad_aligned(weight) &&
                 quad_aligned(dy);
    float* sums = partial + (size_t)blockIdx.x * C;
    for (int turn = 0; turn < turns; turn++) {
        Lane me = lane_of(((long long)blockIdx.x * turns + turn) * BLOCK_ROWS, rows, C);
        long long at = me.row * C, gate = me.row * z_row;
        Row row = {dx + at, dz + gate, dy + at, x + at, z + gate};
        if (whole) {
            unnorm_row<true, HELD>(w, sums, row, weight, rstd + me.row, me, C, turn > 0);
        } else {
            unnorm_row<false, 1>(w, sums, row, weight, rstd + me.row, me, C, turn > 0);
        }
    }
}
