// Kernels for the tests of the driver layer.

// y[i] = a * x[i]. Launch: one thread an element.
extern "C" __global__ void scale(float* y, const float* x, float a, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i];
}

// y[i] = x[i] + b. Launch: one thread an element.
extern "C" __global__ void shift(float* y, const float* x, float b, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] + b;
}

// Each block reverses its blockDim.x elements through dynamic shared memory.
extern "C" __global__ void reverse_blocks(float* y, const float* x)
{
    extern __shared__ float tile[];
    int first = blockIdx.x * blockDim.x;
    tile[threadIdx.x] = x[first + threadIdx.x];
    __syncthreads();
    y[first + threadIdx.x] = tile[blockDim.x - 1 - threadIdx.x];
}

// One argument of each kind, each written to its own place of `out` as a double.
extern "C" __global__ void echo(double* out, bool flag, unsigned char byte, short s, int i, unsigned u,
                                long long l, unsigned long long ul, float f, double d)
{
    if (threadIdx.x != 0) return;
    double values[9] = {(double)flag, (double)byte, (double)s, (double)i, (double)u,
                        (double)l, (double)ul, (double)f, d};
    for (int k = 0; k < 9; k++) out[k] = values[k];
}
