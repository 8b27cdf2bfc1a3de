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

#include "common/act.cuh"        // act_t, quads
#include "common/row_lanes.cuh"  // row_lane
#include "common/sigmoid.cuh"    // sigmoid_quad, silu_slope_quad

// x * silu(z)
__device__ __forceinline__ float4 gated_quad(float4 x, float4 z)
{
    return multiply_quad(x, multiply_quad(z, sigmoid_quad(z)));
}

// Overwrites y and rstd.
// Launch: block 128, grid ceil(rows/16); eight threads a row.
extern "C" __global__ void __launch_bounds__(128) gated_norm_forward(
    act_t* __restrict__ y, float* __restrict__ rstd, const float* __restrict__ x,
    const float* __restrict__ z, const float* __restrict__ weight, int rows, int C, int z_row,
    float epsilon)
{
    __shared__ float squares[BLOCK_ROWS][ROW_LANES];
    RowLane me = row_lane(rows, C);
    long long origin = me.row * C;
    const float* gate = z + me.row * z_row;

    // own columns; what lies past the end of a row reads as 0
    float square = 0.0f;
    for (int c = first_column(me); c < me.columns; c += COLUMN_STEP) {
        int valid = valid_columns(me, c);
        float4 u = gated_quad(load_quad(x + origin + c, valid), load_quad(gate + c, valid));
        square += dot_quad(u, u);
    }
    squares[me.slot][me.lane] = square;
    __syncthreads();
    if (me.columns == 0) return;

    float total = 0.0f;
    for (int l = 0; l < ROW_LANES; l++) total += squares[me.slot][l];
    float row_rstd = 1.0f / sqrtf(total / C + epsilon);
    for (int c = first_column(me); c < C; c += COLUMN_STEP) {
        int valid = valid_columns(me, c);
        float4 u = gated_quad(load_quad(x + origin + c, valid), load_quad(gate + c, valid));
        float4 scale = multiply_quad(load_quad(weight + c, valid), same_quad(row_rstd));
        store_quad(y + origin + c, multiply_quad(u, scale), valid);
    }
    if (me.lane == 0) rstd[me.row] = row_rstd;
}

// Overwrites dx and dz. dx may be dy.
// Launch: block 128, grid ceil(rows/16); eight threads a row.
extern "C" __global__ void __launch_bounds__(128) gated_norm_backward(
    float* dx, float* __restrict__ dz, const float* dy, const float* __restrict__ x,
    const float* __restrict__ z, const float* __restrict__ weight, const float* __restrict__ rstd,
    int rows, int C, int z_row)
{
    __shared__ float products[BLOCK_ROWS][ROW_LANES];
    RowLane me = row_lane(rows, C);
    long long origin = me.row * C;
    const float* gate = z + me.row * z_row;

    float product = 0.0f;
    for (int c = first_column(me); c < me.columns; c += COLUMN_STEP) {
        int valid = valid_columns(me, c);
        float4 u = gated_quad(load_quad(x + origin + c, valid), load_quad(gate + c, valid));
        float4 g = load_quad(dy + origin + c, valid);
        product += dot_quad(u, multiply_quad(g, load_quad(weight + c, valid)));
    }
    products[me.slot][me.lane] = product;
    __syncthreads();
    if (me.columns == 0) return;

    float average = 0.0f, row_rstd = rstd[me.row];
    for (int l = 0; l < ROW_LANES; l++) average += products[me.slot][l];
    float4 pull = same_quad(-average / C * row_rstd * row_rstd), scale = same_quad(row_rstd);
    for (int c = first_column(me); c < C; c += COLUMN_STEP) {
        int valid = valid_columns(me, c);
        float4 a = load_quad(x + origin + c, valid), b = load_quad(gate + c, valid);
        float4 silu = multiply_quad(b, sigmoid_quad(b));
        float4 g = multiply_quad(load_quad(dy + origin + c, valid), load_quad(weight + c, valid));
        float4 du = multiply_quad(fma_quad(multiply_quad(a, silu), pull, g), scale);
        store_quad(dx + origin + c, multiply_quad(du, silu), valid);
        float4 slope = multiply_quad(a, silu_slope_quad(b));
        store_quad(dz + me.row * z_row + c, multiply_quad(du, slope), valid);
    }
}

// Overwrites partial[chunk] = dweight summed over the chunk's rows.
// Launch: block 64, grid (ceil(C/256), chunks); a thread owns four columns; no barrier.
extern "C" __global__ void __launch_bounds__(64) gated_norm_backward_partial(
    float* __restrict__ partial, const float* __restrict__ dy, const float* __restrict__ x,
    const float* __restrict__ z, const float* __restrict__ rstd, int rows, int C, int z_row,
    int chunk_rows)
{
    int c = (blockIdx.x * blockDim.x + threadIdx.x) * 4;
    if (c >= C) return;
    int valid = quad_valid(c, C);
    long long first = (long long)blockIdx.y * chunk_rows;
    long long last = first + chunk_rows < rows ? first + chunk_rows : rows;
    float4 sum = same_quad(0.0f);
    for (long long row = first; row < last; row++) {
        long long at = row * C + c;
        float4 u = gated_quad(load_quad(x + at, valid), load_quad(z + row * z_row + c, valid));
        float4 g = multiply_quad(load_quad(dy + at, valid), same_quad(rstd[row]));
        sum = fma_quad(g, u, sum);
    }
    store_quad(partial + (size_t)blockIdx.y * C + c, sum, valid);
}
