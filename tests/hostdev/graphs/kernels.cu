// Kernels of the graph tests: small, and each result tells which launches ran in which order.
extern "C" __global__ void add(float* x, float value, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] += value;
}

extern "C" __global__ void scale(float* x, float value, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= value;
}

// x = a + b: the join of a fork.
extern "C" __global__ void sum(float* x, const float* a, const float* b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = a[i] + b[i];
}

// Holds its stream until the host sets *flag (mapped pinned memory).
extern "C" __global__ void hold(const int* flag) {
    while (*(const volatile int*)flag == 0) {
    }
}
