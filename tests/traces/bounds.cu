// Kernels that say how large a launch of them may be.

// y[0] = n if n < 0; compiled for blocks of at most 64 threads.
extern "C" __global__ void __launch_bounds__(64) bounded(float* y, const float* x, int n, float s) {
    if (n < 0) y[0] = x[0] * s;
}

// y[0] = x[t] if n < 0, through 1 KiB of shared memory that it declares itself.
extern "C" __global__ void declared(float* y, const float* x, int n, float s) {
    __shared__ float seen[256];
    seen[threadIdx.x % 256] = x[threadIdx.x % 256];
    __syncthreads();
    if (n < 0) y[0] = seen[(threadIdx.x + 1) % 256] * s;
}
