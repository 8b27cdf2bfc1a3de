// Overwrites out[0..count) with one value.
// Launch: block 128, grid ceil(count/512); four elements a thread.

#include "common/quad.cuh"  // quads

extern "C" __global__ void __launch_bounds__(128) fill(
    float* __restrict__ out, float value, long long count)
{
    long long i = ((long long)blockIdx.x * blockDim.x + threadIdx.x) * 4;
    if (i >= count) return;
    store_quad(out + i, same_quad(value), quad_valid(i, count));
}
