// Barriers and warp operations that not all come to who must: NAME_wrong beside NAME_clean.
// A finding has to name the lines marked `// NAME 1` and `// NAME 2`.
// Launch: grid 2, block 64; y, x [4096], zeros at first.

extern "C" __global__ void branches_wrong(float* y, const float* x) {
    if (threadIdx.x < 16) {
        y[64 * blockIdx.x + threadIdx.x] = 1.0f + x[0];
        __syncthreads();  // branches 1
    } else {
        __syncthreads();  // branches 2
    }
}
extern "C" __global__ void branches_clean(float* y, const float* x) {
    if (blockIdx.x == 0) {
        y[threadIdx.x] = 1.0f + x[0];
        __syncthreads();
    } else {
        __syncthreads();
    }
}

// The last block of a launch whose size is not a multiple of the block.
extern "C" __global__ void early_return_wrong(float* y, const float* x) {
    __shared__ float tile[64];
    int i = blockIdx.x * 64 + threadIdx.x;
    if (i >= 100) return;
    tile[threadIdx.x] = x[i];
    __syncthreads();  // early_return 1
    y[i] = tile[threadIdx.x / 2];
}
extern "C" __global__ void early_return_clean(float* y, const float* x) {
    __shared__ float tile[64];
    int i = blockIdx.x * 64 + threadIdx.x;
    if (blockIdx.x == 1) return;
    tile[threadIdx.x] = x[i];
    __syncthreads();
    if (i >= 50) return;
    y[i] = tile[threadIdx.x / 2];
}

// One loop more for some: they wait for those that have returned.
extern "C" __global__ void counts_wrong(float* y) {
    for (unsigned i = 0; i < 2 + (threadIdx.x == 5); i++) {
        y[64 * blockIdx.x + threadIdx.x] = (float)i;
        __syncthreads();  // counts 1
    }
}
extern "C" __global__ void counts_clean(float* y) {
    for (unsigned i = 0; i < 2 + blockIdx.x; i++) {
        y[64 * blockIdx.x + threadIdx.x] = (float)i;
        __syncthreads();
    }
}

// A lane waits at the barrier, the others for it.
extern "C" __global__ void stuck_wrong(float* y) {
    if (threadIdx.x == 3) {
        __syncthreads();  // stuck 1
    } else {
        __syncwarp();  // stuck 2
        __syncthreads();
    }
    y[64 * blockIdx.x + threadIdx.x] = 1.0f;
}
extern "C" __global__ void stuck_clean(float* y) {
    __syncwarp();
    __syncthreads();
    y[64 * blockIdx.x + threadIdx.x] = 1.0f;
}

// The first warp has come to the warp operation before it waits: lanes of the second left that out.
extern "C" __global__ void left_out_wrong(float* y) {
    if (threadIdx.x < 48) __syncwarp();  // left_out 1
    __syncthreads();                     // left_out 2
    y[64 * blockIdx.x + threadIdx.x] = 1.0f;
}
extern "C" __global__ void left_out_clean(float* y) {
    if (threadIdx.x < 48) __syncwarp(threadIdx.x < 32 ? 0xffffffffu : 0xffffu);
    __syncthreads();
    y[64 * blockIdx.x + threadIdx.x] = 1.0f;
}

// The same lanes wait at the same two, but it is the barrier that comes first.
extern "C" __global__ void barrier_first_wrong(float* y) {
    __syncwarp();
    if (threadIdx.x < 48) __syncthreads();  // barrier_first 1
    __syncwarp();                           // barrier_first 2
    y[64 * blockIdx.x + threadIdx.x] = 1.0f;
}
extern "C" __global__ void barrier_first_clean(float* y) {
    __syncwarp();
    if (blockIdx.x < 48) __syncthreads();
    __syncwarp();
    y[64 * blockIdx.x + threadIdx.x] = 1.0f;
}

// ---- masks ----

extern "C" __global__ void outside_wrong(unsigned* y) {
    if (threadIdx.x % 32 < 8)
        y[64 * blockIdx.x + threadIdx.x] = __ballot_sync(0x7fu, 1);  // outside 1
}
extern "C" __global__ void outside_clean(unsigned* y) {
    if (threadIdx.x % 32 < 8)
        y[64 * blockIdx.x + threadIdx.x] = __ballot_sync(0xffu, 1);
}

// Lanes that have returned need not vote, but there is nothing to read from them.
extern "C" __global__ void returned_wrong(float* y, const float* x) {
    int lane = threadIdx.x % 32;
    if (lane >= 20) return;
    float v = x[threadIdx.x];
    y[64 * blockIdx.x + threadIdx.x] = v + __shfl_down_sync(0xffffffffu, v, 16);  // returned 1
}
extern "C" __global__ void returned_clean(float* y, const float* x) {
    int lane = threadIdx.x % 32;
    if (lane >= 20) return;
    float v = x[threadIdx.x];
    if (__ballot_sync(0xffffffffu, v == 0.0f) == 0xfffffu)
        y[64 * blockIdx.x + threadIdx.x] = v + __shfl_sync(0xffffffffu, v, 19);
}

extern "C" __global__ void unnamed_wrong(float* y, const float* x) {
    float v = x[threadIdx.x];
    if (threadIdx.x % 32 < 16)
        y[64 * blockIdx.x + threadIdx.x] = __shfl_xor_sync(0xffffu, v, 16);  // unnamed 1
}
extern "C" __global__ void unnamed_clean(float* y, const float* x) {
    float v = x[threadIdx.x];
    if (threadIdx.x % 32 < 16)
        y[64 * blockIdx.x + threadIdx.x] = __shfl_xor_sync(0xffffu, v, 8);
}

// The lanes that the others wait for make an operation of their own, and return.
extern "C" __global__ void deserted_wrong(unsigned* y) {
    unsigned lane = threadIdx.x % 32, i = 64 * blockIdx.x + threadIdx.x;
    if (lane < 20) y[i] = __ballot_sync(0xffffffffu, lane & 1);  // deserted 1
    else y[i] = __ballot_sync(0xfff00000u, 1);                   // deserted 2
}
// They come all the same, after it; or have returned without one.
extern "C" __global__ void deserted_clean(unsigned* y) {
    unsigned lane = threadIdx.x % 32, i = 64 * blockIdx.x + threadIdx.x, own = 0;
    if (lane >= 20) own = __ballot_sync(0xfff00000u, 1);
    y[i] = own + __ballot_sync(0xffffffffu, lane & 1);
    if (lane >= 20) return;
    y[i] += __ballot_sync(0xffffffffu, lane & 1);
}

// Two masks of one warp that name each other's lanes: neither is ever complete.
extern "C" __global__ void crossed_wrong(unsigned* y) {
    int lane = threadIdx.x % 32;
    unsigned mask = lane < 16 ? 0x1ffffu : 0xffff8000u;
    y[64 * blockIdx.x + threadIdx.x] = __ballot_sync(mask, 1);  // crossed 1
}
extern "C" __global__ void crossed_clean(unsigned* y) {
    int lane = threadIdx.x % 32;
    unsigned mask = lane < 16 ? 0xffffu : 0xffff0000u;
    y[64 * blockIdx.x + threadIdx.x] = __ballot_sync(mask, 1);
}
