// Softmax cross-entropy over V classes; cross_entropy_wide.cu has the kernels for thousands.
//
//   row_loss[r] = log(sum over v of exp(logits[r,v])) - logits[r,targets[r]]
//   dlogits[r,v] = (softmax(logits[r])[v] - (v == targets[r])) * scale;  1/rows for the mean loss
//
// Shapes: logits, dlogits [rows,V], act_t; targets [rows] int32, each in [0,V); row_loss [rows],
// float32 like all that is computed.

#define ROW_LANES 16
#include "common/act.cuh"        // act_t, quads
#include "common/held_row.cuh"   // load_held, TAIL
#include "common/row_lanes.cuh"  // row_lane

#define LOWEST -3.0e38f  // below every logit; NVRTC has no infinity constant
#define HELD 4            // quads a lane keeps: of 256 classes all
#define MEAN_THREADS 512
#define MEAN_SUMS 32  // that are left after the first barrier

__device__ __forceinline__ float peak_of(float4 q)
{
    return fmaxf(fmaxf(q.x, q.y), fmaxf(q.z, q.w));
}

__device__ __forceinline__ float4 exponentials(float4 q, float top)
{
    return make_float4(expf(q.x - top), expf(q.y - top), expf(q.z - top), expf(q.w - top));
}

// q with `less` taken from element `at`, if that is one of 0 .. 3.
__device__ __forceinline__ float4 less_at(float4 q, int at, float less)
{
    return make_float4(
        at == 0 ? q.x - less : q.x, at == 1 ? q.y - less : q.y, at == 2 ? q.z - less : q.z,
        at == 3 ? q.w - less : q.w);
}

// Each lane's largest logit and its sum of exp(logit - that); `held`, whose filler is LOWEST, is
// turned into these exponentials. Of a long row's rest nothing is kept, and the sum follows the
// largest logit as it grows: the rest is read once.
template <int N>
__device__ __forceinline__ void lane_softmax(
    float* peak, float* sum, float4 (&held)[N], const act_t* row, const RowLane& me)
{
    float top = LOWEST, total = 0.0f;
    UNROLL for (int k = 0; k < N; k++) top = fmaxf(top, peak_of(held[k]));
    for (TAIL(N, c, me)) {
        float4 q = filled_quad(row + c, valid_columns(me, c), LOWEST);
        float higher = fmaxf(top, peak_of(q));
        total *= expf(top - higher);
        top = higher;
        q = exponentials(q, top);
        total += (q.x + q.y) + (q.z + q.w);
    }
    UNROLL for (int k = 0; k < N; k++) {
        held[k] = exponentials(held[k], top);
        total += (held[k].x + held[k].y) + (held[k].z + held[k].w);
    }
    *peak = top;
    *sum = me.columns > first_column(me) ? total : 0.0f;
}

// Merges the lanes' (peak, sum) of one row, in lane order: the row's largest logit and sum of
// exp(logit - largest).
__device__ __forceinline__ void merge_softmax(
    float* peak, float* sum, const float* peaks, const float* sums)
{
    float top = peaks[0], total = 0.0f;
    UNROLL for (int l = 1; l < ROW_LANES; l++) top = fmaxf(top, peaks[l]);
    UNROLL for (int l = 0; l < ROW_LANES; l++) total += sums[l] * expf(peaks[l] - top);
    *peak = top;
    *sum = total;
}

// Overwrites row_loss; logits are left alone.
// Launch: block 128, grid ceil(rows/8).
extern "C" __global__ void __launch_bounds__(128) cross_entropy_forward(
    float* __restrict__ row_loss, const act_t* __restrict__ logits,
    const int* __restrict__ targets, int rows, int V)
{
    __shared__ float peaks[BLOCK_ROWS][ROW_LANES];
    __shared__ float sums[BLOCK_ROWS][ROW_LANES];
    RowLane me = row_lane(rows, V);
    const act_t* row = logits + (size_t)me.row * V;
    float peak, sum;
    float4 held[HELD];
    load_held(held, row, me, LOWEST);
    lane_softmax(&peak, &sum, held, row, me);
    peaks[me.slot][me.lane] = peak;
    sums[me.slot][me.lane] = sum;
    __syncthreads();
    if (me.columns == 0 || me.lane != 0) return;
    merge_softmax(&peak, &sum, peaks[me.slot], sums[me.slot]);
    row_loss[me.row] = logf(sum) + (peak - widened(row[targets[me.row]]));
}

// Overwrites row_loss, and turns logits into dlogits in place.
// Launch: block 128, grid ceil(rows/8).
extern "C" __global__ void __launch_bounds__(128) cross_entropy_forward_backward(
    float* __restrict__ row_loss, act_t* __restrict__ logits, const int* __restrict__ targets,
    int rows, int V, float scale)
{
    __shared__ float peaks[BLOCK_ROWS][ROW_LANES];
    __shared__ float sums[BLOCK_ROWS][ROW_LANES];
    RowLane me = row_lane(rows, V);
    act_t* row = logits + (size_t)me.row * V;
    int target = me.columns ? targets[me.row] : 0;
    // the one lane that overwrites the target's logit
    bool owner = me.columns && target / 4 % ROW_LANES == me.lane;
    float own_peak, peak, sum;
    float4 held[HELD];
    load_held(held, row, me, LOWEST);
    float target_logit = owner ? widened(row[target]) : 0.0f;
    lane_softmax(&own_peak, &sum, held, row, me);
    peaks[me.slot][me.lane] = own_peak;
    sums[me.slot][me.lane] = sum;
    __syncthreads();
    if (me.columns == 0) return;

    merge_softmax(&peak, &sum, peaks[me.slot], sums[me.slot]);
    float4 factor = same_quad(expf(own_peak - peak) / sum * scale);
    int at = target - first_column(me);
    UNROLL for (int k = 0; k < HELD; k++) {
        held[k] = less_at(multiply_quad(held[k], factor), at - k * COLUMN_STEP, scale);
    }
    store_held(row, held, me);
    for (TAIL(HELD, c, me)) {
        int valid = valid_columns(me, c);
        float4 q = exponentials(load_quad(row + c, valid), own_peak);
        store_quad(row + c, less_at(multiply_quad(q, factor), target - c, scale), valid);
    }
    if (owner) row_loss[me.row] = logf(sum) + (peak - target_logit);
}

// Overwrites loss[0] with the mean of row_loss; rows >= 1.
// Launch: block 512, grid 1.
// Sums in double, each thread over its own stride, then every 32nd thread's, then those 32, each in
// order: repeatable, and rounded once.
extern "C" __global__ void __launch_bounds__(512) mean_loss(
    float* __restrict__ loss, const float* __restrict__ row_loss, int rows)
{
    __shared__ double sums[MEAN_THREADS];
    __shared__ double groups[MEAN_SUMS];
    int t = threadIdx.x;
    double sum = 0.0;
    for (int first = t; first < rows; first += 4 * MEAN_THREADS) {
        float found[4];
        UNROLL for (int u = 0; u < 4; u++) {
            int r = first + u * MEAN_THREADS;
            found[u] = r < rows ? row_loss[r] : 0.0f;
        }
        UNROLL for (int u = 0; u < 4; u++) sum += found[u];
    }
    sums[t] = sum;
    __syncthreads();
    if (t < MEAN_SUMS) {
        sum = 0.0;
        UNROLL for (int u = t; u < MEAN_THREADS; u += MEAN_SUMS) sum += sums[u];
        groups[t] = sum;
    }
    __syncthreads();
    if (t > 0) return;
    sum = 0.0;
    UNROLL for (int u = 0; u < MEAN_SUMS; u++) sum += groups[u];
    loss[0] = (float)(sum / rows);
}
