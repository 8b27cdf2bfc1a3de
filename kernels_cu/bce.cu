// Binary cross-entropy of logits, mean over the elements, float32.
//
//   loss = average of max(x, 0) - x * target + log(1 + exp(-|x|))
//   dlogits = (sigmoid(x) - target) * scale;  scale 1/count for the mean loss
//
// Shapes: logits, dlogits, targets [count], targets in [0,1]; partial [blocks]; loss [1].

#include "common/bce.cuh"     // element_loss, element_slope
#include "common/quad.cuh"    // quads
#include "common/unroll.cuh"  // UNROLL

#define THREADS 512
#define GROUPS 16
#define MOST_BLOCKS 64

// Adds up the block's sums, every sixteenth and then the sixteen; the result is thread 0's.
__device__ __forceinline__ double block_total(double sum, double* sums)
{
    sums[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x < GROUPS) {
        UNROLL for (int t = GROUPS; t < THREADS; t += GROUPS) sum += sums[threadIdx.x + t];
        sums[threadIdx.x] = sum;
    }
    __syncthreads();
    if (threadIdx.x > 0) return 0.0;
    UNROLL for (int t = 1; t < GROUPS; t++) sum += sums[t];
    return sum;
}

__device__ __forceinline__ float4 gradient_quad(float4 x, float4 target, float scale)
{
    float4 slopes = make_float4(
        element_slope(x.x, target.x), element_slope(x.y, target.y), element_slope(x.z, target.z),
        element_slope(x.w, target.w));
    return multiply_quad(slopes, same_quad(scale));
}

// Overwrites partial[block] with the sum of the losses of the block's elements, or, where there is
// one block, loss[0] with their mean; and dlogits, unless it is null, with their gradients. dlogits
// may be logits.
// Launch: block 512, grid `blocks`, up to 64; each thread walks quads over the whole grid. Sums in
// double: rounded once.
extern "C" __global__ void __launch_bounds__(512) bce_partial(
    float* __restrict__ loss, float* __restrict__ partial, float* dlogits, const float* logits,
    const float* __restrict__ targets, long long count, float scale)
{
    __shared__ double sums[THREADS];
    long long stride = (long long)gridDim.x * THREADS * 4;
    double sum = 0.0;
    for (long long i = ((long long)blockIdx.x * THREADS + threadIdx.x) * 4; i < count;
         i += stride) {
        int valid = quad_valid(i, count);
        float4 x = load_quad(logits + i, valid), target = load_quad(targets + i, valid);
        sum += element_loss(x.x, target.x);
        if (valid > 1) sum += element_loss(x.y, target.y);
        if (valid > 2) sum += element_loss(x.z, target.z);
        if (valid > 3) sum += element_loss(x.w, target.w);
        if (dlogits) store_quad(dlogits + i, gradient_quad(x, target, scale), valid);
    }
    sum = block_total(sum, sums);
    if (threadIdx.x > 0) return;
    if (gridDim.x > 1) {
        partial[blockIdx.x] = (float)sum;
    } else {
        loss[0] = (float)(sum / count);
    }
}

// Overwrites loss[0] with the sum of partial over count.
// Launch: block 64, grid 1.
extern "C" __global__ void __launch_bounds__(64) bce_final(
    float* __restrict__ loss, const float* __restrict__ partial, int blocks, long long count)
{
    __shared__ float sums[MOST_BLOCKS];
    sums[threadIdx.x] = (int)threadIdx.x < blocks ? partial[threadIdx.x] : 0.0f;
    __syncthreads();
    if (threadIdx.x > 0) return;
    double sum = 0.0;
    UNROLL for (int t = 0; t < MOST_BLOCKS; t++) sum += sums[t];
    loss[0] = (float)(sum / count);
}
