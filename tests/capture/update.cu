// Kernels whose order and arguments show in what they leave behind.

// x[i] += value   in place.   Launch: block 128, grid ceil(n/128).
extern "C" __global__ void add(float* x, float value, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] += value;
}

// x[i] *= factor   in place.   Launch: block 128, grid ceil(n/128).
extern "C" __global__ void scale(float* x, float factor, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= factor;
}

// x[i] += other[i]   in place.   Launch: block 128, grid ceil(n/128).
extern "C" __global__ void add_all(float* x, const float* other, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] += other[i];
}

// Runs until flag[0] is not 0.   Launch: one thread.
extern "C" __global__ void hold(const int* flag)
{
    while (*(const volatile int*)flag == 0) {
    }
}
