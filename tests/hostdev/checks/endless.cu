// Kernels that never end: two look at memory, one waits, two compute, one of them in a header.

extern "C" __global__ void waits(float* y, int n) {
    volatile float* p = y;
    while (p[0] >= 0.0f) {  // BUG endless-kernel None
    }
}
extern "C" __global__ void counts(float* y, int n) {
    unsigned i = threadIdx.x % 512u;
    // The value at the end is used, and none that the compiler could tell: it has to keep the loop.
    while (i < 1000u + n) i = (i * 2u) & 511u;  // BUG endless-kernel None
    y[0] = i;
}
extern "C" __global__ void asks(float* y, int n) {
    __syncthreads();
    while (atomicAdd(&y[0], 0.0f) >= 0.0f) {  // BUG endless-kernel None
    }
}
extern "C" __global__ void meets(float* y, int n) {
    for (;;) __syncthreads();  // BUG endless-kernel None
}
extern "C" __global__ void computes(float* y, int n) {
    float x = y[0];
    while (x >= 0.0f) x = __fsqrt_rd(x);  // BUG endless-kernel None
    y[0] = x;
}
