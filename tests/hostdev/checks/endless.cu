// Kernels that never end: one that looks at memory, and one that does not.

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
