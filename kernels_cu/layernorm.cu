// Layer normalisation over the last axis, with what makes its input: nothing, a residual connection
// and the bias before it, or the embedding. layernorm_backward.cu has the gradients.
//
//   y = (x - mean) * rstd * weight + bias,  rstd = 1 / sqrt(variance + epsilon), variance over C
//
// Shapes: y [rows,C], act_t; x, branch, residual [rows,C]; mean, rstd [rows]; weight, bias,
// branch_bias [C], float32 like all that is not said to be act_t.
// ROW_LANES is a define: 16, or 32 for rows of more than 256 columns. The launches below have block
// 256 and grid ceil(rows/BLOCK_ROWS): 16 rows a block, or 8.

#ifndef ROW_LANES
#define ROW_LANES 16
#endif
#define ROW_THREADS 256
#include "common/act.cuh"        // act_t, quads
#include "common/held_row.cuh"   // load_held, TAIL
#include "common/norm.cuh"       // add_deviations, normed
#include "common/row_lanes.cuh"  // row_lane
#include "common/row_sums.cuh"   // set_sums, added_sums

// Turns what lies past the end of the row into `fill`: where that is itself read, quads loaded with
// it as their filler would wait for it.
template <int N>
__device__ __forceinline__ void fill_absent(float4 (&q)[N], const RowLane& me, float fill)
{
    UNROLL for (int k = 0; k < N; k++) {
        int valid = me.columns - first_column(me) - k * COLUMN_STEP;
        q[k] = make_float4(
            valid > 0 ? q[k].x : fill, valid > 1 ? q[k].y : fill, valid > 2 ? q[k].z : fill,
            valid > 3 ? q[k].w : fill);
    }
}

// The norm of a row, and the row itself, x, where `out` is not null. `held` are its first quads,
// the filler being the pivot; x_row is where the rest is read. out is written behind the barrier:
// the pivot is column 0, which all lanes read.
// Mean and squares are of x minus the row's first element, the pivot: on a mean of 1000 a sum would
// be rounded to 6e-5, which a spread of 0.05 feels in the fourth digit. As the pivot is of the row,
// its distance from the mean is within the deviations themselves: what cancels in the variance is
// at most C roundings, and a few of them where the pivot is not the one element far from all.
// Weight and bias of many quads are read behind the barrier, from L1: in front of it they would
// take the registers that the row's own reads wait in.
template <int N>
__device__ __forceinline__ void normalise(
    act_t* y_row, float* mean, float* rstd, float* out, const float4 (&held)[N],
    const float* x_row, const float* weight, const float* bias, const RowLane& me, int C,
    float pivot, float epsilon)
{
    __shared__ RowSums sums;
    float4 w[N], b[N], y[N];
    if (N <= 4) {
        load_held(w, weight, me);
        load_held(b, bias, me);
    }

    float sum = 0.0f, squares = 0.0f;
    UNROLL for (int k = 0; k < N; k++) add_deviations(&sum, &squares, held[k], pivot);
    for (TAIL(N, c, me)) {
        float4 q = filled_quad(x_row + c, valid_columns(me, c), pivot);
        add_deviations(&sum, &squares, q, pivot);
    }
    set_sums(sums, me, sum, squares);
    ROW_BARRIER();
    float2 both = added_sums(sums, me);
    float away = both.x / C, variance = fmaxf(both.y / C - away * away, 0.0f);
    float row_rstd = 1.0f / sqrtf(variance + epsilon);
    if (me.columns == 0) return;

    if (N > 4) {
        load_held(w, weight, me);
        load_held(b, bias, me);
    }
    UNROLL for (int k = 0; k < N; k++) {
        y[k] = normed(held[k], pivot, away, row_rstd, w[k], b[k]);
    }
    store_held(y_row, y, me);
    if (out) store_held(out, held, me);
    for (TAIL(N, c, me)) {
        int valid = valid_columns(me, c);
        float4 wc = load_quad(weight + c, valid), bc = load_quad(bias + c, valid);
        float4 q = normed(load_quad(x_row + c, valid), pivot, away, row_rstd, wc, bc);
        store_quad(y_row + c, q, valid);
    }
    if (me.lane == 0) {
        mean[me.row] = pivot + away;
        rstd[me.row] = row_rstd;
    }
}

// Overwrites y, mean, rstd.
extern "C" __global__ void __launch_bounds__(256, 2) layernorm_forward(
    act_t* __restrict__ y, float* __restrict__ mean, float* __restrict__ rstd,
    const float* __restrict__ x, const float* __restrict__ weight, const float* __restrict__ bias,
    int rows, int C, float epsilon)
{
    RowLane me = row_lane(rows, C);
    size_t at = (size_t)me.row * C;
    bool whole = C % 4 == 0 && quads_aligned(y, x, weight, bias);
#define NORM(N) \
    float4 held[N]; \
    load_held(held, x + at, me); \
    float pivot = me.columns ? x[at] : 0.0f; \
    fill_absent(held, me, pivot); \
    normalise(y + at, mean, rstd, nullptr, held, x + at, weight, bias, me, C, pivot, epsilon)
    FOR_HELD(C, whole, NORM)
#undef NORM
}

// Overwrites x = residual + (branch + branch_bias), and y, mean, rstd of x: a linear layer's bias,
// the residual connection after it and the norm after that. x may be branch.
extern "C" __global__ void __launch_bounds__(256, 2) layernorm_residual_forward(
    float* x, act_t* __restrict__ y, float* __restrict__ mean, float* __restrict__ rstd,
    const float* __restrict__ residual, const float* branch,
    const float* __restrict__ branch_bias, const float* __restrict__ weight,
    const float* __restrict__ bias, int rows, int C, float epsilon)
{
    RowLane me = row_lane(rows, C);
    size_t at = (size_t)me.row * C;
    bool whole =
        C % 4 == 0 && quads_aligned(x, y, residual, branch, branch_bias, weight, bias);
    for (TAIL(HELD_OF(C, whole), c, me)) {
        int valid = valid_columns(me, c);
        float4 q = add_quad(load_quad(branch + at + c, valid), load_quad(branch_bias + c, valid));
        store_quad(x + at + c, add_quad(load_quad(residual + at + c, valid), q), valid);
    }
#define NORM(N) \
    float4 held[N], more[N], add[N]; \
    load_held(held, residual + at, me); \
    load_held(more, branch + at, me); \
    load_held(add, branch_bias, me); \
    float pivot = me.columns ? residual[at] + (branch[at] + branch_bias[0]) : 0.0f; \
    UNROLL for (int k = 0; k < N; k++) { \
        held[k] = add_quad(held[k], add_quad(more[k], add[k])); \
    } \
    fill_absent(held, me, pivot); \
    normalise(y + at, mean, rstd, x + at, held, x + at, weight, bias, me, C, pivot, epsilon)
    FOR_HELD(C, whole, NORM)
#undef NORM
}

// Overwrites x[row] = token_table[tokens[row]] + position_table[row % T], and y, mean, rstd of x.
// Shapes: tokens [rows] int32 in [0,V); token_table [V,C]; position_table [T,C].
extern "C" __global__ void __launch_bounds__(256, 2) layernorm_embedding_forward(
    float* __restrict__ x, act_t* __restrict__ y, float* __restrict__ mean,
    float* __restrict__ rstd, const int* __restrict__ tokens,
    const float* __restrict__ token_table, const float* __restrict__ position_table,
    const float* __restrict__ weight, const float* __restrict__ bias, int rows, int T, int C,
    float epsilon)
{
    RowLane me = row_lane(rows, C);
    size_t at = (size_t)me.row * C;
    const float* token = token_table + (me.columns ? (size_t)tokens[me.row] * C : 0);
    const float* position = position_table + (size_t)((int)me.row % T) * C;
    bool whole = C % 4 == 0 && quads_aligned(x, y, token, position, weight, bias);
    for (TAIL(HELD_OF(C, whole), c, me)) {
        int valid = valid_columns(me, c);
        float4 q = load_quad(position + c, valid);
        store_quad(x + at + c, add_quad(load_quad(token + c, valid), q), valid);
    }
#define NORM(N) \
    float4 held[N], more[N]; \
    load_held(held, token, me); \
    load_held(more, position, me); \
    float pivot = me.columns ? token[0] + position[0] : 0.0f; \
    UNROLL for (int k = 0; k < N; k++) held[k] = add_quad(held[k], more[k]); \
    fill_absent(held, me, pivot); \
    normalise(y + at, mean, rstd, x + at, held, x + at, weight, bias, me, C, pivot, epsilon)
    FOR_HELD(C, whole, NORM)
#undef NORM
}
