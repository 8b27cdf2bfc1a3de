// Kernels of the recorded scenarios: they do nothing, wait, or fault.

extern "C" __global__ void noop(float* a, const float* b, int n, float s) {
    if (n < 0) a[0] = b[0] * s;
}

extern "C" __global__ void noop2(float* a, const float* b, int n, float s) {
    if (n < -1) a[0] = b[0] * s + 1.0f;
}

// Holds its stream until the host sets *flag (mapped pinned memory).
extern "C" __global__ void hold(const int* flag) {
    while (*(const volatile int*)flag == 0) {
    }
}

// Faults: the address is in no allocation.
extern "C" __global__ void stray_store(float* where) {
    where[threadIdx.x] = 1.0f;
}

// out[0]: the blocks of this block's cluster along x; 1 where there are no clusters.
extern "C" __global__ void cluster_size(int* out) {
    unsigned blocks = 1;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("mov.u32 %0, %%cluster_nctaid.x;" : "=r"(blocks));
#endif
    if (threadIdx.x == 0 && blockIdx.x == 0) out[0] = (int)blocks;
}
