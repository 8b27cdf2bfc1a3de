// Kernels of capture.c, which loads them from a file:
//   python -m lowgraph compile examples/c/capture.cu -o capture.image [--arch sm_90]

// y[n] accumulates: y[i] += a * x[i]. One thread an element, any 1-d grid that covers n.
extern "C" __global__ void add_scaled(float* y, const float* x, float a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += a * x[i];
}

// z[n] is overwritten: z[i] = x[i] * x[i]. One thread an element, any 1-d grid that covers n.
extern "C" __global__ void square(float* z, const float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) z[i] = x[i] * x[i];
}
