// Dropout with random state on the device: y[i] = x[i] / (1 - p) where kept, else 0.
//
// Element i is kept when word i mod 4 of counter `first + i / 4` is at least `threshold`
// (= round(p * 2^32)). Backward makes the same mask again from what forward saved: no mask is
// stored. lowgraph/ops/philox.py draws the same words.
//
// Shapes: y, x, dy, dx [count] float32, y may be x and dx may be dy; saved [1] RandomState.

#include "common/quad.cuh"    // load_quad, store_quad
#include "common/random.cuh"  // RandomState, random_words

__device__ __forceinline__ float4 masked_quad(
    float4 q, RandomState at, long long quad, unsigned int threshold, float scale)
{
    Philox draw = random_words(at.seed, at.offset + (unsigned long long)quad, USE_DROPOUT);
    return make_float4(draw.word[0] >= threshold ? q.x * scale : 0.0f,
                       draw.word[1] >= threshold ? q.y * scale : 0.0f,
                       draw.word[2] >= threshold ? q.z * scale : 0.0f,
                       draw.word[3] >= threshold ? q.w * scale : 0.0f);
}

// Overwrites y, and saved with the seed and counter that backward needs.
// Launch: block 128, grid ceil(count/512).
extern "C" __global__ void __launch_bounds__(128) dropout_forward(
    float* y, RandomState* __restrict__ saved, const float* x,
    const RandomState* __restrict__ random, long long first, unsigned int threshold, float scale,
    long long count)
{
    long long quad = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    RandomState at = {random->seed, random->offset + (unsigned long long)first};
    if (quad == 0) *saved = at;
    if (quad * 4 >= count) return;
    int valid = quad_valid(quad * 4, count);
    float4 q = masked_quad(load_quad(x + quad * 4, valid), at, quad, threshold, scale);
    store_quad(y + quad * 4, q, valid);
}

// Overwrites dx with dy under forward's mask.
// Launch: block 128, grid ceil(count/512).
extern "C" __global__ void __launch_bounds__(128) dropout_backward(
    float* dx, const float* dy, const RandomState* __restrict__ saved,
    unsigned int threshold, float scale, long long count)
{
    long long quad = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (quad * 4 >= count) return;
    int valid = quad_valid(quad * 4, count);
    float4 q = masked_quad(load_quad(dy + quad * 4, valid), *saved, quad, threshold, scale);
    store_quad(dx + quad * 4, q, valid);
}

// Moves the offset past the counters that the step took.
// Launch: block 1, grid 1, last in a step.
extern "C" __global__ void random_advance(RandomState* random, long long counters)
{
    random->offset += (unsigned long long)counters;
}
