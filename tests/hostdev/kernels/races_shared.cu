// Races of one block, in shared and in global memory: each kernel NAME_racy beside NAME_clean.
// A finding has to name the lines marked `// NAME 1` and `// NAME 2`, in either order.
// Launch: block 64 unless the test says otherwise, grid 1; y, x [4096], flags [64] zeros at first.

#include <cuda_fp16.h>

// ---- a barrier is missing ----

extern "C" __global__ void mirror_racy(float* y, const float* x) {
    __shared__ float tile[64];
    tile[threadIdx.x] = x[threadIdx.x];       // mirror 1
    y[threadIdx.x] = tile[63 - threadIdx.x];  // mirror 2
}
extern "C" __global__ void mirror_clean(float* y, const float* x) {
    __shared__ float tile[64];
    tile[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = tile[63 - threadIdx.x];
}

extern "C" __global__ void dynamic_racy(float* y, const float* x) {
    extern __shared__ float buffer[];
    buffer[threadIdx.x] = x[threadIdx.x];        // dynamic 1
    y[threadIdx.x] = buffer[threadIdx.x ^ 33];   // dynamic 2
}
extern "C" __global__ void dynamic_clean(float* y, const float* x) {
    extern __shared__ float buffer[];
    buffer[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = buffer[threadIdx.x ^ 33];
}

// The barrier that keeps the next pass from overwriting what this one reads.
extern "C" __global__ void passes_racy(float* y, const float* x) {
    __shared__ float tile[64];
    float sum = 0.0f;
    for (int pass = 0; pass < 3; pass++) {
        tile[threadIdx.x] = x[pass * 64 + threadIdx.x];  // passes 1
        __syncthreads();
        sum += tile[63 - threadIdx.x];                   // passes 2
    }
    y[threadIdx.x] = sum;
}
extern "C" __global__ void passes_clean(float* y, const float* x) {
    __shared__ float tile[64];
    float sum = 0.0f;
    for (int pass = 0; pass < 3; pass++) {
        tile[threadIdx.x] = x[pass * 64 + threadIdx.x];
        __syncthreads();
        sum += tile[63 - threadIdx.x];
        __syncthreads();
    }
    y[threadIdx.x] = sum;
}

// The writer is the last reader: of the reads before, another one has to be remembered.
extern "C" __global__ void last_reader_racy(float* y, const float* x) {
    __shared__ float first;
    if (threadIdx.x == 0) first = x[0];
    __syncthreads();
    y[threadIdx.x] = first;                  // last_reader 1
    if (threadIdx.x == 63) first = x[1];     // last_reader 2
    __syncthreads();
    y[64 + threadIdx.x] = first;
}
extern "C" __global__ void last_reader_clean(float* y, const float* x) {
    __shared__ float first;
    if (threadIdx.x == 0) first = x[0];
    __syncthreads();
    y[threadIdx.x] = first;
    __syncthreads();
    if (threadIdx.x == 63) first = x[1];
    __syncthreads();
    y[64 + threadIdx.x] = first;
}

// The same in one warp, whose lane 30 goes on last here. Launch: block 32.
extern "C" __global__ void last_lane_racy(float* y, const float* x) {
    __shared__ float first;
    if (threadIdx.x == 0) first = x[0];
    __syncthreads();
    y[threadIdx.x] = first;                  // last_lane 1
    if (threadIdx.x == 30) first = x[1];     // last_lane 2
}
extern "C" __global__ void last_lane_clean(float* y, const float* x) {
    __shared__ float first;
    if (threadIdx.x == 0) first = x[0];
    __syncthreads();
    y[threadIdx.x] = first;
    __syncwarp();
    if (threadIdx.x == 30) first = x[1];
}

// The same with the writer's own warp in step with it: the reader is in another warp, which goes on
// first here.
extern "C" __global__ void other_warp_racy(float* y, const float* x) {
    __shared__ float first;
    if (threadIdx.x == 0) first = x[0];
    __syncthreads();
    y[threadIdx.x] = first;                  // other_warp 1
    __syncwarp();
    if (threadIdx.x == 31) first = x[1];     // other_warp 2
}
extern "C" __global__ void other_warp_clean(float* y, const float* x) {
    __shared__ float first[2];
    if (threadIdx.x % 32 == 0) first[threadIdx.x / 32] = x[0];
    __syncwarp();
    y[threadIdx.x] = first[threadIdx.x / 32];
    __syncwarp();
    if (threadIdx.x % 32 == 31) first[threadIdx.x / 32] = x[1];
}

// ---- one warp ----

extern "C" __global__ void neighbour_racy(float* y, const float* x) {
    __shared__ float tile[64];
    tile[threadIdx.x] = x[threadIdx.x];      // neighbour 1
    y[threadIdx.x] = tile[threadIdx.x ^ 1];  // neighbour 2
}
extern "C" __global__ void neighbour_clean(float* y, const float* x) {
    __shared__ float tile[64];
    tile[threadIdx.x] = x[threadIdx.x];
    __syncwarp();
    y[threadIdx.x] = tile[threadIdx.x ^ 1];
}

// The halves of a warp are in step with themselves only.
extern "C" __global__ void halves_racy(float* y, const float* x) {
    __shared__ float tile[64];
    unsigned half = threadIdx.x % 32 < 16 ? 0xffffu : 0xffff0000u;
    tile[threadIdx.x] = x[threadIdx.x];       // halves 1
    __syncwarp(half);
    y[threadIdx.x] = tile[threadIdx.x ^ 16];  // halves 2
}
extern "C" __global__ void halves_clean(float* y, const float* x) {
    __shared__ float tile[64];
    unsigned half = threadIdx.x % 32 < 16 ? 0xffffu : 0xffff0000u;
    tile[threadIdx.x] = x[threadIdx.x];
    __syncwarp(half);
    y[threadIdx.x] = tile[threadIdx.x ^ 15];
    __syncwarp();
    y[threadIdx.x] += tile[threadIdx.x ^ 16];
}

// A sum over a warp and then over the warps' sums.
extern "C" __global__ void block_sum_racy(float* y, const float* x) {
    __shared__ float sums[2];
    float sum = x[threadIdx.x];
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;  // block_sum 1
    y[threadIdx.x] = sums[0] + sums[1];                       // block_sum 2
}
extern "C" __global__ void block_sum_clean(float* y, const float* x) {
    __shared__ float sums[2];
    float sum = x[threadIdx.x];
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
    __syncthreads();
    y[threadIdx.x] = sums[0] + sums[1];
}

// ---- parts of a word ----

extern "C" __global__ void bytes_racy(unsigned char* y, const unsigned char* x) {
    __shared__ unsigned char tile[64];
    tile[threadIdx.x] = x[threadIdx.x];       // bytes 1
    y[threadIdx.x] = tile[threadIdx.x ^ 35];  // bytes 2
}
extern "C" __global__ void bytes_clean(unsigned char* y, const unsigned char* x) {
    __shared__ unsigned char tile[64];
    tile[threadIdx.x] = x[threadIdx.x];
    y[threadIdx.x] = tile[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = tile[threadIdx.x ^ 35];
}

// A word that was whole, then is written in halves by two threads.
extern "C" __global__ void split_racy(unsigned* y) {
    __shared__ unsigned words[64];
    words[threadIdx.x] = 0;                                               // split 1
    ((unsigned short*)words)[2 * ((threadIdx.x + 1) % 64) + 1] = 1;       // split 2
    __syncthreads();
    y[threadIdx.x] = words[threadIdx.x];
}
extern "C" __global__ void split_clean(unsigned* y) {
    __shared__ unsigned words[64];
    words[threadIdx.x] = 0;
    __syncthreads();
    ((unsigned short*)words)[2 * ((threadIdx.x + 1) % 64) + 1] = 1;
    ((unsigned short*)words)[2 * threadIdx.x] = 2;
    __syncthreads();
    y[threadIdx.x] = words[threadIdx.x];
}

// ---- global memory of one block; atomics ----

extern "C" __global__ void global_racy(float* y, const float* x) {
    y[threadIdx.x] = x[threadIdx.x];               // global 1
    y[64 + threadIdx.x] = y[63 - threadIdx.x];     // global 2
}
extern "C" __global__ void global_clean(float* y, const float* x) {
    y[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    y[64 + threadIdx.x] = y[63 - threadIdx.x];
}

extern "C" __global__ void counter_racy(float* y, const float* x) {
    __shared__ int counter;
    if (threadIdx.x == 0) counter = 0;
    __syncthreads();
    if (x[threadIdx.x] >= 0.0f) atomicAdd(&counter, 1);  // counter 1
    y[threadIdx.x] = (float)counter;                     // counter 2
}
extern "C" __global__ void counter_clean(float* y, const float* x) {
    __shared__ int counter;
    if (threadIdx.x == 0) counter = 0;
    __syncthreads();
    if (x[threadIdx.x] >= 0.0f) atomicAdd(&counter, 1);
    __syncthreads();
    y[threadIdx.x] = (float)counter;
}

// The warp that adds last sums what the others left: ordered by the block's fence and the atomic.
extern "C" __global__ void last_warp_racy(float* y, const float* x) {
    __shared__ float parts[2];
    __shared__ int done;
    if (threadIdx.x == 0) done = 0;
    __syncthreads();
    int warp = threadIdx.x / 32;
    if (threadIdx.x % 32 == 0) {
        parts[warp] = x[threadIdx.x];                                  // last_warp 1
        if (atomicAdd(&done, 1) == 1) y[0] = parts[0] + parts[1];      // last_warp 2
    }
}
extern "C" __global__ void last_warp_clean(float* y, const float* x) {
    __shared__ float parts[2];
    __shared__ int done;
    if (threadIdx.x == 0) done = 0;
    __syncthreads();
    int warp = threadIdx.x / 32;
    if (threadIdx.x % 32 == 0) {
        parts[warp] = x[threadIdx.x];
        __threadfence_block();
        if (atomicAdd(&done, 1) == 1) y[0] = parts[0] + parts[1];
    }
}

// The compiler notes for an array of a type with constructors, empty ones too, that they have run.
extern "C" __global__ void constructed_racy(float* y, const float* x) {
    __shared__ __half2 tile[64];
    tile[threadIdx.x] = __floats2half2_rn(x[threadIdx.x], 1.0f);      // constructed 1
    y[threadIdx.x] = __low2float(tile[63 - threadIdx.x]);             // constructed 2
}
extern "C" __global__ void constructed_clean(float* y, const float* x) {
    __shared__ __half2 tile[64];
    tile[threadIdx.x] = __floats2half2_rn(x[threadIdx.x], 1.0f);
    __syncthreads();
    y[threadIdx.x] = __low2float(tile[63 - threadIdx.x]);
}

// A warp fills a ring of two for the other one, which waits in a loop, as it does for a free place.
template <bool fenced>
__device__ void pass_on(float* y, const float* x) {
    __shared__ float ring[2][32];
    __shared__ volatile int filled, taken;
    int lane = threadIdx.x % 32;
    if (threadIdx.x == 0) filled = taken = 0;
    __syncthreads();
    for (int round = 0; round < 6; round++) {
        if (threadIdx.x >= 32) {
            while (round - taken >= 2) {
            }
            __syncwarp();
            ring[round % 2][lane] = x[32 * round + lane];  // ring 1
            if (fenced) __threadfence_block();
            __syncwarp();
            if (lane == 0) filled = round + 1;
        } else {
            while (filled <= round) {
            }
            __syncwarp();
            y[32 * round + lane] = ring[round % 2][lane];  // ring 2
            __threadfence_block();
            __syncwarp();
            if (lane == 0) taken = round + 1;
        }
    }
}
extern "C" __global__ void ring_racy(float* y, const float* x) { pass_on<false>(y, x); }
extern "C" __global__ void ring_clean(float* y, const float* x) { pass_on<true>(y, x); }
