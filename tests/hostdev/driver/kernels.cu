// Kernels of the driver tests: each does one thing to memory, or takes its time.
extern "C" __global__ void scale(float* y, const float* x, float factor, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] * factor;
}

// Writes one float wherever it is told to.
extern "C" __global__ void poke(float* y, long long index, float value) { y[index] = value; }

// Reads one float from wherever it is told to.
extern "C" __global__ void peek(float* out, const float* x, long long index) { out[0] = x[index]; }

// Holds its stream until the host sets *flag (mapped pinned memory).
extern "C" __global__ void hold(const int* flag) {
    while (*(const volatile int*)flag == 0) {
    }
}

extern "C" __global__ void __launch_bounds__(64) bounded(float* y) { y[threadIdx.x] = 1.0f; }

// 40 000 bytes of static shared memory.
extern "C" __global__ void large_shared(float* y) {
    __shared__ float tile[10000];
    tile[threadIdx.x] = 1.0f;
    __syncthreads();
    y[threadIdx.x] = tile[threadIdx.x ^ 1];
}

extern "C" __global__ void dynamic_shared(float* y) {
    extern __shared__ float buffer[];
    buffer[threadIdx.x] = 2.0f;
    __syncthreads();
    y[threadIdx.x] = buffer[threadIdx.x];
}

__device__ float table[4] = {1.0f, 2.0f, 3.0f, 4.0f};

extern "C" __global__ void read_table(float* y) { y[threadIdx.x] = table[threadIdx.x]; }

extern "C" __global__ void mixed(char a, double b, short c, float* d) {
    d[0] = (float)a + (float)b + (float)c;
}

extern "C" __global__ void add_up(float* total, const float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(total, x[i]);
}
