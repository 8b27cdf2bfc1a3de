// A miniature training step: a counter in device memory, a rate derived from it, an update.

// counter[0] += 1; rate[0] = 1 / counter[0].   Launch: one thread.
extern "C" __global__ void advance(long long* counter, float* rate)
{
    counter[0] += 1;
    rate[0] = 1.0f / (float)counter[0];
}

// out[i] = 2 x[i] + 1   overwrites.   Launch: block 128, grid ceil(n/128).
extern "C" __global__ void forward(float* out, const float* x, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = 2.0f * x[i] + 1.0f;
}

// y[i] += rate[0] * x[i]   accumulates.   Launch: block 128, grid ceil(n/128).
extern "C" __global__ void update(float* y, const float* x, const float* rate, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += rate[0] * x[i];
}

// y[i] += rate * x[i]   the same with the rate by value: what a graph would freeze.
extern "C" __global__ void update_by_value(float* y, const float* x, float rate, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += rate * x[i];
}
