// Root-mean-square norm over the last axis (Zhang and Sennrich 2019), of a residual stream that a
// branch may join first.
//
//   u = x + branch,  rstd = 1 / sqrt(average(u^2) + epsilon),  y = u * rstd * weight
//   dx = rstd * (g - u * rstd^2 * average(g * u)),  g = dy * weight;  it is branch's gradient, too
//   dweight[c] = sum over rows of dy * u * rstd
//
// Shapes: y, dy, narrow [rows,C], act_t; x, branch, sum, dx [rows,C]; rstd [rows]; weight, dweight
// [C]; partial [chunks,C], which column_sum_final of bias.cu adds up: no atomics, and the bits
// repeat. float32 but for what is said to be act_t.

#include "common/act.cuh"        // act_t, quads
#include "common/row_lanes.cuh"  // row_lane

// Overwrites y and rstd, and sum with u. Without a branch (null) u is x, and sum is left alone.
// Launch: block 128, grid ceil(rows/16); eight threads a row. sum may be x or branch.
extern "C" __global__ void __launch_bounds__(128) rms_norm_forward(
    act_t* __restrict__ y, float* __restrict__ rstd, float* sum, const float* x,
    const float* branch, const float* __restrict__ weight, int rows, int C, float epsilon)
{
    __shared__ float squares[BLOCK_ROWS][ROW_LANES];
    RowLane me = row_lane(rows, C);
    long long origin = me.row * C;
    const float* stream = branch ? sum : x;  // where a lane finds its own u again

    // own columns; what lies past the end of a row reads as 0
    float square = 0.0f;
    for (int c = first_column(me); c < me.columns; c += COLUMN_STEP) {
        int valid = valid_columns(me, c);
        float4 u = load_quad(x + origin + c, valid);
        if (branch) {
            u = add_quad(u, load_quad(branch + origin + c, valid));
            store_quad(sum + origin + c, u, valid);
        }
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
        float4 scale = multiply_quad(load_quad(weight + c, valid), same_quad(row_rstd));
        float4 u = load_quad(stream + origin + c, valid);
        store_quad(y + origin + c, multiply_quad(u, scale), valid);
    }
    if (me.lane == 0) rstd[me.row] = row_rstd;
}

// Overwrites dx, or adds to it where accumulate is 1 (the stream's own gradient is already there).
// Overwrites narrow with dx as act_t unless it is null: an operand of the products that follow.
// u: x where there was no branch, else sum. dx may be dy where act_t is float.
// Launch: block 128, grid ceil(rows/16); eight threads a row.
extern "C" __global__ void __launch_bounds__(128) rms_norm_backward(
    float* dx, act_t* __restrict__ narrow, const act_t* dy, const float* __restrict__ u,
    const float* __restrict__ weight, const float* __restrict__ rstd, int rows, int C,
    int accumulate)
{
    __shared__ float products[BLOCK_ROWS][ROW_LANES];
    RowLane me = row_lane(rows, C);
    long long origin = me.row * C;

    float product = 0.0f;
    for (int c = first_column(me); c < me.columns; c += COLUMN_STEP) {
        int valid = valid_columns(me, c);
        float4 g = multiply_quad(load_quad(dy + origin + c, valid), load_quad(weight + c, valid));
        product += dot_quad(g, load_quad(u + origin + c, valid));
    }
    products[me.slot][me.lane] = product;
    __syncthreads();
    if (me.columns == 0) return;

    float average = 0.0f, row_rstd = rstd[me.row];
    for (int l = 0; l < ROW_LANES; l++) average += products[me.slot][l];
    float4 pull = same_quad(-average / C * row_rstd * row_rstd), scale = same_quad(row_rstd);
    for (int c = first_column(me); c < C; c += COLUMN_STEP) {
        int valid = valid_columns(me, c);
        float4 g = multiply_quad(load_quad(dy + origin + c, valid), load_quad(weight + c, valid));
        float4 du = multiply_quad(fma_quad(load_quad(u + origin + c, valid), pull, g), scale);
        float* to = dx + origin + c;
        if (accumulate) du = add_quad(load_quad(to, valid), du);
        store_quad(to, du, valid);
        if (narrow) store_quad(narrow + origin + c, du, valid);
    }
}

// Overwrites partial[chunk] = dweight summed over the chunk's rows.
// Launch: block 64, grid (ceil(C/256), chunks); a thread owns four columns; no barrier.
extern "C" __global__ void __launch_bounds__(64) rms_norm_backward_partial(
    float* __restrict__ partial, const act_t* __restrict__ dy, const float* __restrict__ u,
    const float* __restrict__ rstd, int rows, int C, int chunk_rows)
{
    int c = (blockIdx.x * blockDim.x + threadIdx.x) * 4;
    if (c >= C) return;
    int valid = quad_valid(c, C);
    long long first = (long long)blockIdx.y * chunk_rows;
    long long last = first + chunk_rows < rows ? first + chunk_rows : rows;
    float4 sum = same_quad(0.0f);
    for (long long row = first; row < last; row++) {
        float4 g = multiply_quad(load_quad(dy + row * C + c, valid), same_quad(rstd[row]));
        sum = fma_quad(g, load_quad(u + row * C + c, valid), sum);
    }
    store_quad(partial + (size_t)blockIdx.y * C + c, sum, valid);
}
