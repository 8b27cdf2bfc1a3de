// Atomic operations on device and shared memory. Launch: any grid of at least n threads unless a
// kernel says otherwise; each accumulates into memory that the caller has initialised.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

// out: [10] of T: add, sub, min, max, and, or, xor of all x; the last three hold what _block and
// _system forms of add and the system form of max gave.
template <class T>
__device__ void integer_atomics(T* out, const T* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    atomicAdd(&out[0], x[i]);
    atomicAdd(&out[1], (T)(0 - x[i]));
    atomicMin(&out[2], x[i]);
    atomicMax(&out[3], x[i]);
    atomicAnd(&out[4], x[i]);
    atomicOr(&out[5], x[i]);
    atomicXor(&out[6], x[i]);
    atomicAdd_system(&out[7], x[i]);
    atomicMax_system(&out[8], x[i]);
    __shared__ T mine;
    if (threadIdx.x == 0) mine = 0;
    __syncthreads();
    atomicAdd_block(&mine, x[i]);
    __syncthreads();
    if (threadIdx.x == 0) atomicAdd(&out[9], mine);
}
extern "C" __global__ void atomics_int(int* out, const int* x, int n) {
    integer_atomics(out, x, n);
}
extern "C" __global__ void atomics_uint(unsigned* out, const unsigned* x, int n) {
    integer_atomics(out, x, n);
}
extern "C" __global__ void atomics_ull(unsigned long long* out, const unsigned long long* x, int n) {
    integer_atomics(out, x, n);
}

// tickets: [n] old values of a counter that wraps after `limit` (atomicInc), and of one that counts
// down from it (atomicDec); old values of atomicSub. out: [3] counters.
extern "C" __global__ void wrapping(unsigned* out, unsigned* up, unsigned* down, int* below, int* less, unsigned limit, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    up[i] = atomicInc(&out[0], limit);
    down[i] = atomicDec(&out[1], limit);
    below[i] = atomicSub(less, 2);
}

// sums: float, double, half2 and bfloat162 sums of x (rounded to each type before it is added).
extern "C" __global__ void float_sums(float* f, double* d, __half2* h, __nv_bfloat162* b, const float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    atomicAdd(f, x[i]);
    atomicAdd(d, (double)x[i]);
    atomicAdd(h, __floats2half2_rn(x[i], -x[i]));
    atomicAdd(b, __floats2bfloat162_rn(x[i], -x[i]));
}

// A chain of exchanges: every value that went in comes out once, the last one stays in `slot`.
extern "C" __global__ void exchanged(int* slot, int* out, float* float_slot, float* float_out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    out[i] = atomicExch(slot, i);
    float_out[i] = atomicExch(float_slot, (float)i);
}

// Products by compare-and-swap, of int, unsigned long long and (as bits) float.
extern "C" __global__ void swapped(int* product, unsigned long long* wide, float* greatest, const float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int seen = *product, before;
    do {
        before = seen;
        seen = atomicCAS(product, before, before * 3);
    } while (seen != before);
    unsigned long long wide_seen = *wide, wide_before;
    do {
        wide_before = wide_seen;
        wide_seen = atomicCAS(wide, wide_before, wide_before * 5 + 1);
    } while (wide_seen != wide_before);
    int* bits = reinterpret_cast<int*>(greatest);
    int old = *bits;
    while (__int_as_float(old) < x[i]) {
        int found = atomicCAS(bits, old, __float_as_int(x[i]));
        if (found == old) break;
        old = found;
    }
}

// The last block to finish adds up what all blocks wrote: the fence orders each block's store before
// its ticket. total: [1]; parts: [blocks]; ticket: [1], zero before. Launch: 64 threads a block.
extern "C" __global__ void last_block_sums(int* total, volatile int* parts, unsigned* ticket, const int* x, int n) {
    __shared__ int sum;
    __shared__ bool is_last;
    if (threadIdx.x == 0) sum = 0;
    __syncthreads();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(&sum, x[i]);
    __threadfence_block();
    __syncthreads();
    if (threadIdx.x == 0) {
        parts[blockIdx.x] = sum;
        __threadfence();
        is_last = atomicInc(ticket, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (is_last && threadIdx.x == 0) {
        __threadfence_system();
        int all = 0;
        for (int k = 0; k < (int)gridDim.x; k++) all += parts[k];
        *total = all;
    }
}

// The first warp waits for the last one, which waits at each round for the first: a ring of one place.
// Launch: one block of 96; y, x [32 * rounds]; y = 2 x.
extern "C" __global__ void hand_over(float* y, const float* x, int rounds) {
    __shared__ float place[32];
    __shared__ int filled, taken;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (threadIdx.x == 0) filled = taken = 0;
    __syncthreads();
    for (int round = 0; round < rounds; round++) {
        if (warp == 0) {
            if (lane == 0) while (atomicAdd(&filled, 0) <= round) {
                }
            __syncwarp();
            y[32 * round + lane] = 2.0f * place[lane];
            __threadfence_block();
            __syncwarp();
            if (lane == 0) atomicExch(&taken, round + 1);
        } else if (warp == 2) {
            volatile int* seen = &taken;
            if (lane == 0) while (*seen < round) __nanosleep(20);
            __syncwarp();
            place[lane] = x[32 * round + lane];
            __threadfence_block();
            __syncwarp();
            if (lane == 0) atomicExch(&filled, round + 1);
        }
    }
}
