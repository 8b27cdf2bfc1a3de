// Kernels in a row of which each stays busy before it writes: one that did not wait for the one ahead
// of it would read, or overwrite, what that one still works on.
#include "common/grid_wait.cuh"

__device__ __forceinline__ void linger()
{
#ifndef LOWGRAPH_HOST
    long long begin = clock64();
    while (clock64() - begin < 20000) {
    }
#endif
}

// x[i] = factor * y[i] + value   overwrites.   Launch: block 128, grid ceil(n/128).
extern "C" __global__ void affine(
    float* x, const float* __restrict__ y, float factor, float value, int n)
{
    grid_wait();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float read = i < n ? y[i] : 0.0f;
    linger();
    if (i < n) x[i] = factor * read + value;
}

// The same, launched behind the end of what is ahead of it.
extern "C" __global__ void affine_plain(float* x, const float* y, float factor, float value, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float read = i < n ? y[i] : 0.0f;
    linger();
    if (i < n) x[i] = factor * read + value;
}
