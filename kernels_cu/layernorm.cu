// Layer normalisation over the last axis.
//
//   y = (x - mean) * rstd * weight + bias,  rstd = 1 / sqrt(variance + epsilon), variance over C
//   dx = rstd * (g - average(g) - xhat * average(g * xhat)),
//        g = dy * weight,  xhat = (x - mean) * rstd
//   dweight[c] = sum over rows of dy * xhat,    dbias[c] = sum over rows of dy
//
// Shapes: y, dy, narrow [rows,C], act_t; x, dx [rows,C]; mean, rstd [rows]; weight, bias, dweight,
// dbias [C]; partial [chunks,2,C], float32 like all that is not said to be act_t.
// The parameter gradients take two kernels (a sum for each chunk of rows, then over the chunks in
// order), so that no atomics are needed and the bits repeat.

#include "common/act.cuh"        // act_t, quads
#include "common/row_lanes.cuh"  // row_lane

__device__ __forceinline__ float square(float x)
{
    return x * x;
}

// Overwrites y, mean, rstd.
// Launch: block 128, grid ceil(rows/16).
// Each lane makes mean and squared deviations of its own columns, then they are merged (Chan,
// Golub, LeVeque 1979): as exact as two passes over the row, with one barrier. All of it on x minus
// the row's first element: on a mean of 1000 the lane means would be rounded to 6e-5, which a
// spread of 0.05 feels in the fourth digit.
extern "C" __global__ void __launch_bounds__(128) layernorm_forward(
    act_t* __restrict__ y, float* __restrict__ mean, float* __restrict__ rstd,
    const float* __restrict__ x, const float* __restrict__ weight, const float* __restrict__ bias,
    int rows, int C, float epsilon)
{
    __shared__ float means[BLOCK_ROWS][ROW_LANES];
    __shared__ float spreads[BLOCK_ROWS][ROW_LANES];
    RowLane me = row_lane(rows, C);
    const float* x_row = x + me.row * C;

    // own columns
    float pivot = me.columns ? x_row[0] : 0.0f, sum = 0.0f, spread = 0.0f;
    for (int c = first_column(me); c < me.columns; c += COLUMN_STEP) {
        int valid = valid_columns(me, c);
        float4 q = load_quad(x_row + c, valid);
        sum += q.x - pivot;
        if (valid > 1) sum += q.y - pivot;
        if (valid > 2) sum += q.z - pivot;
        if (valid > 3) sum += q.w - pivot;
    }
    int own = lane_count(me.lane, me.columns);
    float own_mean = own > 0 ? sum / own : 0.0f;
    for (int c = first_column(me); c < me.columns; c += COLUMN_STEP) {
        int valid = valid_columns(me, c);
        float4 q = load_quad(x_row + c, valid);
        spread += square(q.x - pivot - own_mean);
        if (valid > 1) spread += square(q.y - pivot - own_mean);
        if (valid > 2) spread += square(q.z - pivot - own_mean);
        if (valid > 3) spread += square(q.w - pivot - own_mean);
    }
    means[me.slot][me.lane] = own_mean;
    spreads[me.slot][me.lane] = spread;
    __syncthreads();
    if (me.columns == 0) return;

    // merge
    float total = 0.0f, squares = 0.0f;
    for (int l = 0; l < ROW_LANES; l++) total += means[me.slot][l] * lane_count(l, C);
    float row_mean = total / C;
    for (int l = 0; l < ROW_LANES; l++) {
        squares += spreads[me.slot][l] + square(means[me.slot][l] - row_mean) * lane_count(l, C);
    }
    float row_rstd = 1.0f / sqrtf(squares / C + epsilon);

    // normalise
    for (int c = first_column(me); c < C; c += COLUMN_STEP) {
        int valid = valid_columns(me, c);
        float4 q = load_quad(x_row + c, valid);
        float4 w = load_quad(weight + c, valid), b = load_quad(bias + c, valid);
        q.x = (q.x - pivot - row_mean) * row_rstd * w.x + b.x;
        q.y = (q.y - pivot - row_mean) * row_rstd * w.y + b.y;
        q.z = (q.z - pivot - row_mean) * row_rstd * w.z + b.z;
        q.w = (q.w - pivot - row_mean) * row_rstd * w.w + b.w;
        store_quad(y + me.row * C + c, q, valid);
    }
    if (me.lane == 0) {
        mean[me.row] = pivot + row_mean;
        rstd[me.row] = row_rstd;
    }
}

// Overwrites dx, or adds to it where accumulate is 1 (a residual branch's gradient is already
// there); overwrites narrow with dx as act_t unless it is null: the operand of the products that dx
// goes to next, for which it would else be cast.
// Launch: block 128, grid ceil(rows/16). dx may be dy where act_t is float.
extern "C" __global__ void __launch_bounds__(128) layernorm_backward(
    float* dx, act_t* __restrict__ narrow, const act_t* dy, const float* __restrict__ x,
    const float* __restrict__ weight, const float* __restrict__ mean,
    const float* __restrict__ rstd, int rows, int C, int accumulate)
{
    __shared__ float sums[BLOCK_ROWS][ROW_LANES];
    __shared__ float products[BLOCK_ROWS][ROW_LANES];
    RowLane me = row_lane(rows, C);
    const float* x_row = x + me.row * C;
    const act_t* dy_row = dy + me.row * C;
    float row_mean = me.columns ? mean[me.row] : 0.0f, row_rstd = me.columns ? rstd[me.row] : 0.0f;

    // own columns; past the end of a row weight and dy read as 0, so nothing is added there
    float sum = 0.0f, product = 0.0f;
    for (int c = first_column(me); c < me.columns; c += COLUMN_STEP) {
        int valid = valid_columns(me, c);
        float4 q = load_quad(x_row + c, valid), w = load_quad(weight + c, valid);
        float4 g = load_quad(dy_row + c, valid);
        g = multiply_quad(g, w);
        sum += g.x + g.y + g.z + g.w;
        product += (g.x * (q.x - row_mean) + g.y * (q.y - row_mean) + g.z * (q.z - row_mean)
                    + g.w * (q.w - row_mean)) * row_rstd;
    }
    sums[me.slot][me.lane] = sum;
    products[me.slot][me.lane] = product;
    __syncthreads();
    if (me.columns == 0) return;

    // merge
    float average_g = 0.0f, average_gx = 0.0f;
    for (int l = 0; l < ROW_LANES; l++) {
        average_g += sums[me.slot][l];
        average_gx += products[me.slot][l];
    }
    average_g /= C;
    average_gx /= C;

    // dx
    for (int c = first_column(me); c < C; c += COLUMN_STEP) {
        int valid = valid_columns(me, c);
        float* to = dx + me.row * C + c;
        float4 q = load_quad(x_row + c, valid), w = load_quad(weight + c, valid);
        float4 g = load_quad(dy_row + c, valid);
        g.x = row_rstd * (g.x * w.x - average_g - (q.x - row_mean) * row_rstd * average_gx);
        g.y = row_rstd * (g.y * w.y - average_g - (q.y - row_mean) * row_rstd * average_gx);
        g.z = row_rstd * (g.z * w.z - average_g - (q.z - row_mean) * row_rstd * average_gx);
        g.w = row_rstd * (g.w * w.w - average_g - (q.w - row_mean) * row_rstd * average_gx);
        if (accumulate) g = add_quad(load_quad(to, valid), g);
        store_quad(to, g, valid);
        if (narrow) store_quad(narrow + me.row * C + c, g, valid);
    }
}

// Overwrites partial[chunk] = (dweight, dbias) summed over the chunk's rows.
// Launch: block 64, grid (ceil(C/256), chunks); a thread owns four columns; no barrier.
extern "C" __global__ void __launch_bounds__(64) layernorm_backward_partial(
    float* __restrict__ partial, const act_t* __restrict__ dy, const float* __restrict__ x,
    const float* __restrict__ mean, const float* __restrict__ rstd, int rows, int C, int chunk_rows)
{
    int c = (blockIdx.x * blockDim.x + threadIdx.x) * 4;
    if (c >= C) return;
    int valid = quad_valid(c, C);
    long long first = (long long)blockIdx.y * chunk_rows;
    long long last = first + chunk_rows < rows ? first + chunk_rows : rows;

    float4 dweight = same_quad(0.0f), dbias = dweight;
    for (long long row = first; row < last; row++) {
        float4 g = load_quad(dy + row * C + c, valid), q = load_quad(x + row * C + c, valid);
        float m = mean[row], r = rstd[row];
        dweight.x += g.x * ((q.x - m) * r);
        dweight.y += g.y * ((q.y - m) * r);
        dweight.z += g.z * ((q.z - m) * r);
        dweight.w += g.w * ((q.w - m) * r);
        dbias = add_quad(dbias, g);
    }
    float* to = partial + (size_t)blockIdx.y * 2 * C + c;
    store_quad(to, dweight, valid);
    store_quad(to + C, dbias, valid);
}

// Overwrites dweight and dbias with the sums over chunks, or adds them where accumulate is 1.
// Launch: block 64, grid ceil(C/64).
extern "C" __global__ void __launch_bounds__(64) layernorm_backward_final(
    float* __restrict__ dweight, float* __restrict__ dbias, const float* __restrict__ partial,
    int chunks, int C, int accumulate)
{
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= C) return;
    float weight_sum = accumulate ? dweight[c] : 0.0f, bias_sum = accumulate ? dbias[c] : 0.0f;
    for (int chunk = 0; chunk < chunks; chunk++) {
        const float* from = partial + (size_t)chunk * 2 * C + c;
        weight_sum += from[0];
        bias_sum += from[C];
    }
    dweight[c] = weight_sum;
    dbias[c] = bias_sum;
}
