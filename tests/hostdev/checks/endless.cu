// Kernels that never end: one that looks at memory, and one that does not.

extern "C" __global__ void waits(float* y, int n) {
    volatile float* p = y;
    while (p[0] >= 0.0f) {  // BUG endless-kernel None
    }
}
extern "C" __global__ void counts(float* y, int n) {
    unsigned i = threadIdx.x;
    // The assembly keeps the compiler from taking it for granted that the loop ends.
    while (i != 33u) asm volatile("" : "+r"(i));  // BUG endless-kernel None
    y[0] = i;
}
