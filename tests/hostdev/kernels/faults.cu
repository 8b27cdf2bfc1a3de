// Kernels that go wrong in one thread, for test_engine.py and test_driver_faults.py.

// Thread `bad` of block `bad_block` touches x[at]; every other thread does nothing.
extern "C" __global__ void read_at(float* out, const float* x, long long at, int bad,
                                   int bad_block) {
    if (threadIdx.x == bad && blockIdx.x == bad_block) out[0] = x[at];
}
extern "C" __global__ void write_at(float* x, long long at, int bad, int bad_block) {
    if (threadIdx.x == bad && blockIdx.x == bad_block) x[at] = 1.0f;
}

// The same after a barrier, when the threads are fibers.
extern "C" __global__ void write_after_barrier(float* x, long long at, int bad) {
    __syncthreads();
    if (threadIdx.x == bad) x[at] = 1.0f;
    __syncthreads();
}

extern "C" __global__ void write_shared(int at) {
    extern __shared__ float words[];
    words[at] = 1.0f;
}

extern "C" __global__ void read_vector(float4* out, const char* x, int offset) {
    out[0] = *reinterpret_cast<const float4*>(x + offset);
}

extern "C" __global__ void divide(int* out, const int* a, const int* b) {
    out[threadIdx.x] = a[threadIdx.x] / b[threadIdx.x];
}

__device__ __noinline__ int deeper(int depth, volatile int* keep) {
    volatile int frame[256];
    frame[depth & 255] = depth;
    return depth == 0 ? keep[0] : deeper(depth - 1, keep) + frame[depth & 255];
}
extern "C" __global__ void recurse(int* out, int depth) { out[threadIdx.x] = deeper(depth, out); }

extern "C" __global__ void big_frame(int* out, int at) {
    volatile int frame[1 << 18];
    frame[at] = at;
    out[0] = frame[at];
}

// Half of each warp waits at the barrier, the other half at a warp operation of all lanes.
extern "C" __global__ void half_at_barrier(int* out) {
    if (threadIdx.x % 32 < 16) __syncthreads();
    else out[0] = __shfl_xor_sync(0xffffffffu, 1, 1);
}

extern "C" __global__ void shuffle_from_absent(int* out) {
    if (threadIdx.x < 16) out[threadIdx.x] = __shfl_sync(0x0000ffffu, 1, 20);
}
extern "C" __global__ void mask_without_self(int* out) {
    out[threadIdx.x] = __ballot_sync(0x1u, 1);
}

extern "C" __global__ void trap_in(int bad) {
    if (threadIdx.x == bad) __trap();
}
#include <cassert>  // the C library's assertions would end the process
extern "C" __global__ void assert_below(const int* x, int limit) { assert(x[threadIdx.x] < limit); }

extern "C" __global__ void fill(float* x, float value, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = value;
}

// Writes word `at` of 33; past the end only thread 0 of block `bad_block` does.
extern "C" __global__ void write_static(int* out, int at, int bad_block) {
    __shared__ int words[33];
    if (threadIdx.x < 33) words[threadIdx.x] = threadIdx.x;
    __syncthreads();
    if (threadIdx.x == 0 && blockIdx.x == bad_block) *(volatile int*)(words + at) = 7;
    out[blockIdx.x * blockDim.x + threadIdx.x] = words[threadIdx.x % 33];
}

// The access itself is in a header of the host device.
extern "C" __global__ void add_at(float* x, long long at, int bad, int bad_block) {
    if (threadIdx.x == bad && blockIdx.x == bad_block) {
        atomicAdd(x + at, 1.0f);
    }
}
