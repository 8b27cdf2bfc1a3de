// Kernels over an input that may move.

// y[i] += 2 x[i]   accumulates.   Launch: block 128, grid ceil(n/128).
extern "C" __global__ void add_twice(float* y, const float* x, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += 2.0f * x[i];
}

// y[i] += 2 x[0][i]   the same with the address of x read from a table.
extern "C" __global__ void add_twice_of_table(float* y, const float* const* x, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += 2.0f * x[0][i];
}

// y[i] += number mod 1000: a by-value argument whose bits may be those of an address.
extern "C" __global__ void add_number(float* y, long long number, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += (float)(number % 1000);
}

// x[i] = x[i] - rate * y[i]   what a foreign optimizer does to its parameter.
extern "C" __global__ void descend(float* x, const float* y, float rate, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] -= rate * y[i];
}

// y[i] = 1 where the by-value seed says so: the mistake that a random state replaces.
extern "C" __global__ void mask_of_seed(float* y, unsigned long long seed, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = (float)(((seed + i) * 2654435761u >> 7) & 1);
}

// out[0] = n steps of a slow recurrence: keeps a stream busy.   Launch: one thread.
extern "C" __global__ void busy(float* out, int n)
{
    float value = out[0];
    for (int i = 0; i < n; i++) value = value * 0.999f + 1.0f;
    out[0] = value;
}
