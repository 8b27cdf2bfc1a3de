// Overwrites out[0..count) with in rounded to act_t, to nearest even: an operand of a product where
// what makes it writes float32 alone.
// Launch: block 128, grid ceil(count/512); four elements a thread.

#include "common/act.cuh"  // act_t, quads

extern "C" __global__ void __launch_bounds__(128) cast(
    act_t* __restrict__ out, const float* __restrict__ in, long long count)
{
    long long i = ((long long)blockIdx.x * blockDim.x + threadIdx.x) * 4;
    if (i >= count) return;
    int valid = quad_valid(i, count);
    store_quad(out + i, load_quad(in + i, valid), valid);
}
