// Gradients of layer normalisation (layernorm.cu).
//
//   dx = rstd * (g - average(g) - xhat * average(g * xhat)),
//        g = dy * weight,  xhat = (x - mean) * rstd
//   dweight[c] = sum over rows of dy * xhat,    dbias[c] = sum over rows of dy
//
// Shapes: dy, narrow [rows,C], act_t; x, dx [rows,C]; mean, rstd [rows]; weight [C], float32 like
// all that is not said to be act_t.
// The parameter gradients take two steps: layernorm_backward leaves a sum for each chunk of rows,
// and one launch of layernorm_parameters adds the chunks of all norms of a model, in order: no
// atomics, and the bits repeat.
// A lane adds the columns that it holds over its rows in registers, and the rows of a block meet in
// shared memory at the end: dy and x are read once. Columns past the held ones are read twice.
// ROW_LANES is a define: 16, or 32 for rows of more than 256 columns.

#ifndef ROW_LANES
#define ROW_LANES 16
#endif
#define ROW_THREADS 256
#include "common/act.cuh"        // act_t, quads
#include "common/held_row.cuh"   // load_held, TAIL
#include "common/held_sums.cuh"  // sums over rows of held columns
#include "common/norm.cuh"       // input_gradient, moment
#include "common/row_lanes.cuh"  // row_lane
#include "common/row_sums.cuh"   // set_sums, added_sums
#include "common/vector.cuh"     // quads as they lie in memory

template <int N>
__device__ __forceinline__ void load_raw(RawQuad (&q)[N], const act_t* row, const RowLane& me)
{
    const RawQuad zeros = raw_of(same_quad(0.0f));
    if (N > 4 || has_whole_quads(row, me)) {
        UNROLL for (int k = 0; k < N; k++) {
            int c = first_column(me) + k * COLUMN_STEP;
            q[k] = c < me.columns ? raw_quad(row + c) : zeros;
        }
        return;
    }
    UNROLL for (int k = 0; k < N; k++) {
        int c = first_column(me) + k * COLUMN_STEP;
        q[k] = zeros;
        if (c < me.columns) q[k] = raw_of(load_quad(row + c, valid_columns(me, c)));
    }
}

// dx of one row, and what it adds to `own`; all threads of the block come here together. Of many
// quads the weight is `held` in shared memory and the old dx is read behind the barrier: in front
// of it there are no registers left for them to wait in.
template <int N>
__device__ __forceinline__ void row_gradients(
    float* dx, act_t* narrow, HeldSums<N>& own, RowSums& sums, const float4* held, const act_t* dy,
    const float* x, const float* weight, const float* mean, const float* rstd, const RowLane& me,
    int C, int accumulate)
{
    size_t at = (size_t)me.row * C;
    float m = me.columns ? mean[me.row] : 0.0f, r = me.columns ? rstd[me.row] : 0.0f;
    RawQuad raw[N];
    float4 q[N], w[N], old[N];
    load_raw(raw, dy + at, me);
    load_held(q, x + at, me);
    RowLane adding = me;  // no columns to read where nothing is added to
    adding.columns = accumulate ? me.columns : 0;
    if (N <= 4) {
        load_held(old, dx + at, adding);
        load_held(w, weight, me);
    }

    float sum = 0.0f, product = 0.0f;
    UNROLL for (int k = 0; k < N; k++) {
        float4 g = widen_raw(raw[k]);
        add_to_sums(&own.weight[k], &own.bias[k], g, q[k], m, r);
        g = multiply_quad(g, N > 4 ? held[k * ROW_LANES + me.lane] : w[k]);
        sum += (g.x + g.y) + (g.z + g.w);
        product += moment(g, q[k], m);
    }
    for (TAIL(N, c, me)) {
        int valid = valid_columns(me, c);
        float4 gc = multiply_quad(load_quad(dy + at + c, valid), load_quad(weight + c, valid));
        sum += (gc.x + gc.y) + (gc.z + gc.w);
        product += moment(gc, load_quad(x + at + c, valid), m);
    }
    set_sums(sums, me, sum, product * r);
    ROW_BARRIER();
    float2 both = added_sums(sums, me);
    if (me.columns == 0) return;
    float average_g = both.x / C, average_gx = both.y / C;

    if (N > 4) load_held(old, dx + at, adding);
    UNROLL for (int k = 0; k < N; k++) {
        if (N > 4) w[k] = held[k * ROW_LANES + me.lane];
        float4 g = multiply_quad(widen_raw(raw[k]), w[k]);
        old[k] = add_quad(old[k], input_gradient(g, q[k], m, r, average_g, average_gx));
    }
    store_held(dx + at, old, me);
    if (narrow) store_held(narrow + at, old, me);
    for (TAIL(N, c, me)) {
        int valid = valid_columns(me, c);
        float4 gc = multiply_quad(load_quad(dy + at + c, valid), load_quad(weight + c, valid));
        gc = input_gradient(gc, load_quad(x + at + c, valid), m, r, average_g, average_gx);
        if (accumulate) gc = add_quad(load_quad(dx + at + c, valid), gc);
        store_quad(dx + at + c, gc, valid);
        if (narrow) store_quad(narrow + at + c, gc, valid);
    }
}

#define SUM_ROWS 4  // that a thread reads before it adds the first

// Adds to dweight and dbias what the rows first, first + step ... before `last` give to the quad of
// columns at c.
template <bool WHOLE>
__device__ __forceinline__ void add_rows(
    float4* dweight, float4* dbias, const act_t* dy, const float* x, const float* mean,
    const float* rstd, int first, int last, int step, int c, int C)
{
    for (int top = first; top < last; top += SUM_ROWS * step) {
        float4 g[SUM_ROWS], q[SUM_ROWS];
        float m[SUM_ROWS], r[SUM_ROWS];
        UNROLL for (int u = 0; u < SUM_ROWS; u++) {
            int row = top + u * step, valid = row < last ? quad_valid(c, C) : 0;
            size_t at = (size_t)row * C + c;
            g[u] = quad_or_zeros<WHOLE>(dy + at, valid);
            q[u] = quad_or_zeros<WHOLE>(x + at, valid);
            m[u] = valid ? mean[row] : 0.0f;
            r[u] = valid ? rstd[row] : 0.0f;
        }
        UNROLL for (int u = 0; u < SUM_ROWS; u++) {
            add_to_sums(dweight, dbias, g[u], q[u], m[u], r[u]);
        }
    }
}

// partial[c] and partial[C + c] of the columns from `begin` on: the rows' share of dweight[c] and
// dbias[c]. A thread owns a quad of columns of every `groups`-th row; the groups' sums, which meet
// in `room`, are added in order.
__device__ __forceinline__ void column_sums(
    float* partial, float4* room, const act_t* dy, const float* x, const float* mean,
    const float* rstd, int first, int last, int begin, int C)
{
    float4 *weights = room, *biases = room + ROW_THREADS;
    int quads = (C - begin + 3) / 4, across = quads < ROW_THREADS ? quads : ROW_THREADS;
    int groups = ROW_THREADS / across, group = threadIdx.x / across;
    int own = threadIdx.x % across;
    bool whole = C % 4 == 0 && quad_aligned(dy) && quad_aligned(x);
    for (int top = begin; top < C; top += 4 * across) {
        int c = top + 4 * own;
        float4 dweight = same_quad(0.0f), dbias = dweight;
        if (top > begin) __syncthreads();  // the columns before are done with the sums
        if (c < C && group < groups) {
            int from = first + group;
            if (whole) {
                add_rows<true>(&dweight, &dbias, dy, x, mean, rstd, from, last, groups, c, C);
            } else {
                add_rows<false>(&dweight, &dbias, dy, x, mean, rstd, from, last, groups, c, C);
            }
        }
        weights[threadIdx.x] = dweight;
        biases[threadIdx.x] = dbias;
        __syncthreads();
        if (c >= C || group > 0) continue;
        for (int other = 1; other < groups; other++) {
            dweight = add_quad(dweight, weights[other * across + own]);
            dbias = add_quad(dbias, biases[other * across + own]);
        }
        store_quad(partial + c, dweight, quad_valid(c, C));
        store_quad(partial + C + c, dbias, quad_valid(c, C));
    }
    __syncthreads();  // the room is free
}

// What layernorm_backward does, with N quads held.
template <int N>
__device__ __forceinline__ void chunk_gradients(
    float* dx, act_t* narrow, float* partial, float4* room, float4* held, RowSums& sums,
    const act_t* dy, const float* x, const float* weight, const float* mean, const float* rstd,
    int rows, int first, int last, int C, int accumulate)
{
    if (N > 4) {
        for (int i = threadIdx.x; i < N * ROW_LANES; i += ROW_THREADS) {
            held[i] = 4 * i < C ? load_whole_quad(weight + 4 * i) : same_quad(0.0f);
        }
        __syncthreads();
    }
    if (C > N * COLUMN_STEP) {
        column_sums(partial, room, dy, x, mean, rstd, first, last, N * COLUMN_STEP, C);
    }
    HeldSums<N> own;
    UNROLL for (int k = 0; k < N; k++) own.weight[k] = own.bias[k] = same_quad(0.0f);
    for (int row = first; row < last; row += BLOCK_ROWS) {
        RowLane me = row_lane(rows, C);
        me.row = row + me.slot;
        me.columns = me.row < last ? C : 0;
        if (row > first) ROW_BARRIER();  // the rows before are done with the sums
        row_gradients<N>(
            dx, narrow, own, sums, held, dy, x, weight, mean, rstd, me, C, accumulate);
    }
    store_sums(partial, room, own, C);
}

// Overwrites dx, or adds to it where accumulate is 1 (a residual branch's gradient is already
// there); overwrites narrow with dx as act_t unless it is null: the operand of the products that dx
// goes to next, for which it would else be cast. Overwrites 2C numbers of partial from block *
// stride on: the sums of the block's rows for dweight and dbias.
// Launch: block 256, grid max(1, ceil(rows/chunk_rows)); chunk_rows a multiple of 16. dx may be dy
// where act_t is float: what is read of a row twice is read before it is written.
extern "C" __global__ void __launch_bounds__(256, 2) layernorm_backward(
    float* dx, act_t* __restrict__ narrow, float* __restrict__ partial, const act_t* dy,
    const float* __restrict__ x, const float* __restrict__ weight, const float* __restrict__ mean,
    const float* __restrict__ rstd, int rows, int C, int chunk_rows, int stride, int accumulate)
{
    __shared__ float4 room[ROOM_QUADS * ROW_THREADS];
    __shared__ float4 held[MOST_HELD * ROW_LANES];
    __shared__ RowSums sums;
    long long begin = (long long)blockIdx.x * chunk_rows;
    int first = (int)begin, last = (int)(begin + chunk_rows < rows ? begin + chunk_rows : rows);
    float* own = partial + (size_t)blockIdx.x * stride;
    bool whole = C % 4 == 0 && quads_aligned(dx, dy, x, weight);
    whole = whole && (!narrow || quad_aligned(narrow));
#define GRADIENTS(N) \
    chunk_gradients<N>(dx, narrow, own, room, held, sums, dy, x, weight, mean, rstd, rows, first, \
                       last, C, accumulate)
    FOR_HELD(C, whole, GRADIENTS)
#undef GRADIENTS
}

#define SUM_COLUMNS 32
#define SUM_GROUPS 16
#define SUM_CHUNKS 16  // that a thread reads before it adds the first

// Overwrites gradients[places[c]] with the sum over chunks of partial [chunks,columns], or adds it
// where accumulate is 1.
// Launch: block 512, grid ceil(columns/32): a thread adds every sixteenth chunk of a column, then
// the sixteen sums are added in order.
extern "C" __global__ void __launch_bounds__(512, 2) layernorm_parameters(
    float* __restrict__ gradients, const float* __restrict__ partial,
    const int* __restrict__ places, int chunks, int columns, int accumulate)
{
    __shared__ float sums[SUM_GROUPS][SUM_COLUMNS];
    int own = threadIdx.x % SUM_COLUMNS, group = threadIdx.x / SUM_COLUMNS;
    int c = blockIdx.x * SUM_COLUMNS + own, last = c < columns ? chunks : 0;
    int place = c < columns ? places[c] : 0;
    float sum = 0.0f;
    size_t step = (size_t)SUM_GROUPS * columns;
    for (int top = group; top < last; top += SUM_CHUNKS * SUM_GROUPS) {
        const float* from = partial + (size_t)top * columns + c;
        float found[SUM_CHUNKS];
        if (top + (SUM_CHUNKS - 1) * SUM_GROUPS < last) {  // loads that no test keeps apart
            UNROLL for (int u = 0; u < SUM_CHUNKS; u++) found[u] = from[u * step];
        } else {
            UNROLL for (int u = 0; u < SUM_CHUNKS; u++) {
                found[u] = top + u * SUM_GROUPS < last ? from[u * step] : 0.0f;
            }
        }
        UNROLL for (int u = 0; u < SUM_CHUNKS; u++) sum += found[u];
    }
    sums[group][own] = sum;
    __syncthreads();
    if (group > 0 || c >= columns) return;
    UNROLL for (int other = 1; other < SUM_GROUPS; other++) sum += sums[other][own];
    gradients[place] = accumulate ? gradients[place] + sum : sum;
}
