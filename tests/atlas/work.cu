// Kernels of known effect: one that adds, one that takes as long as it is told to.

// out[i] += 1   accumulates.   Launch: block 128, grid ceil(n/128).
extern "C" __global__ void touch(float* out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] += 1.0f;
}

// out[0] = the end of rounds[0] steps of x / 2 + 1, each of which waits for the one before.
// Launch: one thread.   overwrites.
extern "C" __global__ void spin(float* out, const long long* rounds)
{
    float x = out[0];
    for (long long i = 0; i < rounds[0]; ++i) x = x * 0.5f + 1.0f;
    out[0] = x;
}
