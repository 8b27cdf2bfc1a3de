// Softmax cross-entropy over V classes.
//
//   row_loss[r] = log(sum over v of exp(logits[r,v])) - logits[r,targets[r]]
//   dlogits[r,v] = (softmax(logits[r])[v] - (v == targets[r])) * scale;  1/rows for the mean loss
//
// Shapes: logits, dlogits [rows,V], act_t; targets [rows] int32, each in [0,V); row_loss [rows],
// float32 like all that is computed.

#include "common/act.cuh"        // act_t, quads
#include "common/row_lanes.cuh"  // row_lane

#define LOWEST -3.0e38f  // below every logit; NVRTC has no infinity constant

// exp(q - top) of the elements that exist, 0 for the others.
__device__ __forceinline__ float4 exponentials(float4 q, float top, int valid)
{
    return make_float4(
        expf(q.x - top), valid > 1 ? expf(q.y - top) : 0.0f, valid > 2 ? expf(q.z - top) : 0.0f,
        valid > 3 ? expf(q.w - top) : 0.0f);
}

// q with `less` taken from element `at`, if that is one of 0 .. 3.
__device__ __forceinline__ float4 less_at(float4 q, int at, float less)
{
    return make_float4(
        at == 0 ? q.x - less : q.x, at == 1 ? q.y - less : q.y, at == 2 ? q.z - less : q.z,
        at == 3 ? q.w - less : q.w);
}

// Each lane's largest logit and its sum of exp(logit - that); exp values go to `keep` if it is not
// null.
__device__ __forceinline__ void lane_softmax(
    float* peak, float* sum, act_t* keep, const act_t* row, const RowLane& me)
{
    float top = LOWEST, total = 0.0f;
    for (int c = first_column(me); c < me.columns; c += COLUMN_STEP) {
        int valid = valid_columns(me, c);
        float4 q = load_quad(row + c, valid);
        top = fmaxf(top, q.x);
        if (valid > 1) top = fmaxf(top, q.y);
        if (valid > 2) top = fmaxf(top, q.z);
        if (valid > 3) top = fmaxf(top, q.w);
    }
    for (int c = first_column(me); c < me.columns; c += COLUMN_STEP) {
        int valid = valid_columns(me, c);
        float4 q = load_quad(row + c, valid);
        q = exponentials(q, top, valid);
        total += q.x + q.y + q.z + q.w;
        if (keep) store_quad(keep + c, q, valid);
    }
    *peak = top;
    *sum = total;
}

// Merges the lanes' (peak, sum) of one row, in lane order: the row's largest logit and sum of
// exp(logit - largest).
__device__ __forceinline__ void merge_softmax(
    float* peak, float* sum, const float* peaks, const float* sums)
{
    float top = peaks[0], total = 0.0f;
    for (int l = 1; l < ROW_LANES; l++) top = fmaxf(top, peaks[l]);
    for (int l = 0; l < ROW_LANES; l++) total += sums[l] * expf(peaks[l] - top);
    *peak = top;
    *sum = total;
}

// Overwrites row_loss; logits are left alone.
// Launch: block 128, grid ceil(rows/16).
extern "C" __global__ void __launch_bounds__(128) cross_entropy_forward(
    float* __restrict__ row_loss, const act_t* __restrict__ logits,
    const int* __restrict__ targets, int rows, int V)
{
    __shared__ float peaks[BLOCK_ROWS][ROW_LANES];
    __shared__ float sums[BLOCK_ROWS][ROW_LANES];
    RowLane me = row_lane(rows, V);
    float peak, sum;
    lane_softmax(&peak, &sum, nullptr, logits + me.row * V, me);
    peaks[me.slot][me.lane] = peak;
    sums[me.slot][me.lane] = sum;
    __syncthreads();
    if (me.columns == 0 || me.lane != 0) return;
    merge_softmax(&peak, &sum, peaks[me.slot], sums[me.slot]);
    row_loss[me.row] = logf(sum) + (peak - widened(logits[me.row * V + targets[me.row]]));
}

// Overwrites row_loss, and turns logits into dlogits in place.
// Launch: block 128, grid ceil(rows/16).
// The first pass leaves exp(logit - own peak) in place of each logit, so that each costs one
// exponential. Not in bfloat16: there it would be rounded, and the gradient a second time.
extern "C" __global__ void __launch_bounds__(128) cross_entropy_forward_backward(
    float* __restrict__ row_loss, act_t* __restrict__ logits, const int* __restrict__ targets,
    int rows, int V, float scale)
{
    __shared__ float peaks[BLOCK_ROWS][ROW_LANES];
    __shared__ float sums[BLOCK_ROWS][ROW_LANES];
    RowLane me = row_lane(rows, V);
    act_t* row = logits + me.row * V;
    int target = me.columns ? targets[me.row] : 0;
    // the one lane that overwrites the target's logit
    bool owner = me.columns && target / 4 % ROW_LANES == me.lane;
    float target_logit = owner ? widened(row[target]) : 0.0f;

    float own_peak, peak, sum;
    lane_softmax(&own_peak, &sum, IS_BF16(act_t) ? nullptr : row, row, me);
    peaks[me.slot][me.lane] = own_peak;
    sums[me.slot][me.lane] = sum;
    __syncthreads();
    if (me.columns == 0) return;

    merge_softmax(&peak, &sum, peaks[me.slot], sums[me.slot]);
    float4 factor = same_quad(expf(own_peak - peak) / sum * scale);
    for (int c = first_column(me); c < V; c += COLUMN_STEP) {
        int valid = valid_columns(me, c);
#if IS_BF16(act_t)
        float4 q = exponentials(load_quad(row + c, valid), own_peak, valid);
        store_quad(row + c, less_at(multiply_quad(q, factor), target - c, scale), valid);
#else
        store_quad(row + c, multiply_quad(load_quad(row + c, valid), factor), valid);
#endif
    }
    if (owner) {
#if !IS_BF16(act_t)
        row[target] -= scale;
#endif
        row_loss[me.row] = logf(sum) + (peak - target_logit);
    }
}

// Overwrites loss[0] with the mean of row_loss; rows >= 1.
// Launch: block 64, grid 1.
// Sums in double, each thread over its own stride and then in thread order: repeatable, and rounded
// once.
extern "C" __global__ void __launch_bounds__(64) mean_loss(
    float* __restrict__ loss, const float* __restrict__ row_loss, int rows)
{
    __shared__ double sums[64];
    double sum = 0.0;
    for (int r = threadIdx.x; r < rows; r += blockDim.x) sum += row_loss[r];
    sums[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x > 0) return;
    for (int t = 1; t < 64; t++) sum += sums[t];
    loss[0] = (float)(sum / rows);
}
