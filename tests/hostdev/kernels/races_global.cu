// Races between blocks: each kernel NAME_racy beside NAME_clean, with marked lines (races_shared.cu).
// Launch: grid 5, block 64 unless the test says otherwise; y, x [4096], flags [64] zeros at first.

extern "C" __global__ void sum_racy(float* y, const float* x) {
    if (threadIdx.x == 0) y[0] += x[blockIdx.x];  // sum 1 // sum 2
}
extern "C" __global__ void sum_clean(float* y, const float* x) {
    if (threadIdx.x == 0) atomicAdd(&y[0], x[blockIdx.x]);
}

// The block that comes last sums what the others have left.
extern "C" __global__ void last_block_racy(float* y, const float* x, unsigned* flags) {
    __shared__ bool last;
    if (threadIdx.x == 0) {
        y[1 + blockIdx.x] = x[blockIdx.x];                            // last_block 1
        last = atomicInc(flags, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (!last) return;
    if (threadIdx.x < gridDim.x) y[64 + threadIdx.x] = y[1 + threadIdx.x];  // last_block 2
}
extern "C" __global__ void last_block_clean(float* y, const float* x, unsigned* flags) {
    __shared__ bool last;
    if (threadIdx.x == 0) {
        y[1 + blockIdx.x] = x[blockIdx.x];
        __threadfence();
        last = atomicInc(flags, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (!last) return;
    if (threadIdx.x < gridDim.x) y[64 + threadIdx.x] = y[1 + threadIdx.x];
}

// The same where all threads write. Barrier, then fence and atomic by one of them; the last block
// sets the counter back.
extern "C" __global__ void barrier_fence_racy(float* y, const float* x, unsigned* flags) {
    __shared__ bool last;
    y[blockIdx.x * 64 + threadIdx.x] = x[threadIdx.x];  // barrier_fence 1
    if (threadIdx.x == 0) {
        __threadfence();  // before the others have written
        last = atomicAdd(flags, 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (!last) return;
    float sum = 0.0f;
    for (unsigned b = 0; b < gridDim.x; b++) sum += y[b * 64 + threadIdx.x];  // barrier_fence 2
    y[1024 + threadIdx.x] = sum;
}
extern "C" __global__ void barrier_fence_clean(float* y, const float* x, unsigned* flags) {
    __shared__ bool last;
    y[blockIdx.x * 64 + threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        last = atomicAdd(flags, 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (!last) return;
    float sum = 0.0f;
    for (unsigned b = 0; b < gridDim.x; b++) sum += y[b * 64 + threadIdx.x];
    y[1024 + threadIdx.x] = sum;
    if (threadIdx.x == 0) flags[0] = 0;
}

// All fence their own, then a barrier and one atomic. Without the barrier the atomic comes too soon.
extern "C" __global__ void fence_barrier_racy(float* y, const float* x, unsigned* flags) {
    __shared__ bool last;
    y[blockIdx.x * 64 + threadIdx.x] = x[threadIdx.x];  // fence_barrier 1
    __threadfence();
    if (threadIdx.x == 0) last = atomicAdd(flags, 1) == gridDim.x - 1;
    __syncthreads();
    if (last) y[1024 + threadIdx.x] = y[threadIdx.x];  // fence_barrier 2
}
extern "C" __global__ void fence_barrier_clean(float* y, const float* x, unsigned* flags) {
    __shared__ bool last;
    y[blockIdx.x * 64 + threadIdx.x] = x[threadIdx.x];
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) last = atomicAdd(flags, 1) == gridDim.x - 1;
    __syncthreads();
    if (last) y[1024 + threadIdx.x] = y[threadIdx.x];
}

// The same in a warp. Launch: block 32.
extern "C" __global__ void fence_warp_racy(float* y, const float* x, unsigned* flags) {
    y[blockIdx.x * 32 + threadIdx.x] = x[threadIdx.x];  // fence_warp 1
    __syncwarp();
    unsigned before = 0;
    if (threadIdx.x == 0) before = atomicAdd(flags, 1);
    before = __shfl_sync(0xffffffffu, before, 0);
    if (before == gridDim.x - 1) y[1024 + threadIdx.x] = y[threadIdx.x];  // fence_warp 2
}
extern "C" __global__ void fence_warp_clean(float* y, const float* x, unsigned* flags) {
    y[blockIdx.x * 32 + threadIdx.x] = x[threadIdx.x];
    __threadfence();
    __syncwarp();
    unsigned before = 0;
    if (threadIdx.x == 0) before = atomicAdd(flags, 1);
    before = __shfl_sync(0xffffffffu, before, 0);
    if (before == gridDim.x - 1) y[1024 + threadIdx.x] = y[threadIdx.x];
}

// A fence for the block is none for the device.
extern "C" __global__ void scope_racy(float* y, const float* x, unsigned* flags) {
    if (threadIdx.x != 0) return;
    y[blockIdx.x] = x[blockIdx.x];  // scope 1
    __threadfence_block();
    if (atomicAdd(flags, 1) == gridDim.x - 1) y[64] = y[0];  // scope 2
}
extern "C" __global__ void scope_clean(float* y, const float* x, unsigned* flags) {
    if (threadIdx.x != 0) return;
    y[blockIdx.x] = x[blockIdx.x];
    __threadfence_system();
    if (atomicAdd(flags, 1) == gridDim.x - 1) y[64] = y[0];
}

// Each block goes on from what the one before it left, and says so by a flag of its own.
extern "C" __global__ void chain_racy(float* y, const float* x, unsigned* flags) {
    if (threadIdx.x != 0) return;
    float sum = x[blockIdx.x];
    if (blockIdx.x > 0) {
        while (((volatile unsigned*)flags)[blockIdx.x - 1] == 0) {}
        sum += y[blockIdx.x - 1];  // chain 1
    }
    y[blockIdx.x] = sum;  // chain 2
    ((volatile unsigned*)flags)[blockIdx.x] = 1;
}
extern "C" __global__ void chain_clean(float* y, const float* x, unsigned* flags) {
    if (threadIdx.x != 0) return;
    float sum = x[blockIdx.x];
    if (blockIdx.x > 0) {
        while (((volatile unsigned*)flags)[blockIdx.x - 1] == 0) {}
        __threadfence();
        sum += y[blockIdx.x - 1];
    }
    y[blockIdx.x] = sum;
    __threadfence();
    ((volatile unsigned*)flags)[blockIdx.x] = 1;
    if (blockIdx.x == 4) y[64] = y[0] + y[1];  // known by way of the blocks between
}

// A lock around a plain sum, by two threads of each block.
extern "C" __global__ void lock_racy(float* y, const float* x, unsigned* flags) {
    if (threadIdx.x % 32 != 0) return;
    while (atomicCAS(flags, 0u, 1u) != 0u) {}
    y[0] += x[blockIdx.x];  // lock 1 // lock 2
    atomicExch(flags, 0u);
}
extern "C" __global__ void lock_clean(float* y, const float* x, unsigned* flags) {
    if (threadIdx.x % 32 != 0) return;
    while (atomicCAS(flags, 0u, 1u) != 0u) {}
    __threadfence();
    y[0] += x[blockIdx.x];
    __threadfence();
    atomicExch(flags, 0u);
}

// Every block reads what the last one then overwrites, in step with itself only.
extern "C" __global__ void in_place_racy(float* y) {
    float other = y[0];  // in_place 1
    __syncthreads();
    if (blockIdx.x == gridDim.x - 1 && threadIdx.x == 0) y[0] = other + 1.0f;  // in_place 2
}
extern "C" __global__ void in_place_clean(float* y) {
    float other = y[blockIdx.x];
    __syncthreads();
    if (threadIdx.x == 0) y[blockIdx.x] = other + 1.0f;
}

// One instruction writes a block's own tile, then global memory, where the blocks meet.
extern "C" __global__ void tile_then_global_racy(float* y, const float* x) {
    __shared__ float tile[64];
    float* to = tile;
    for (unsigned pass = 3; pass < gridDim.x; pass++, to = y)
        to[threadIdx.x] = x[blockIdx.x];  // tile_then_global 1 // tile_then_global 2
}
extern "C" __global__ void tile_then_global_clean(float* y, const float* x) {
    __shared__ float tile[64];
    float* to = tile;
    for (unsigned pass = 3; pass < gridDim.x; pass++, to = y + 64 * blockIdx.x)
        to[threadIdx.x] = x[blockIdx.x];
}

// Right unless y is x: then a block may read what another one has already overwritten.
extern "C" __global__ void smooth(float* __restrict__ y, const float* __restrict__ x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i + 64 < n) y[i] = 0.5f * (x[i] + x[i + 64]);  // smooth 1 // smooth 2
}

// All write one word: the same, or not.
extern "C" __global__ void same_value_racy(unsigned* y) {
    if (threadIdx.x == 0) y[0] = 7;  // same_value 1 // same_value 2
}
extern "C" __global__ void same_value_clean(volatile unsigned* y) {
    if (threadIdx.x == 0) y[0] = 7;
}
extern "C" __global__ void other_value_racy(unsigned* y) {
    if (threadIdx.x == 0) y[0] = 7 + blockIdx.x;  // other_value 1 // other_value 2
}
extern "C" __global__ void other_value_clean(unsigned* y) {
    if (threadIdx.x == 0) y[blockIdx.x] = 7 + blockIdx.x;
}

// Bytes of one word by several blocks.
extern "C" __global__ void bytes_between_racy(unsigned char* y) {
    if (threadIdx.x < 2) y[blockIdx.x + threadIdx.x] = 1;  // bytes_between 1 // bytes_between 2
}
extern "C" __global__ void bytes_between_clean(unsigned char* y) {
    if (threadIdx.x < 2) y[2 * blockIdx.x + threadIdx.x] = 1;
}

// A sum by atomics, read while others may still add to it. The last one's own atomic is no order.
extern "C" __global__ void total_racy(float* y, const float* x, unsigned* flags) {
    if (threadIdx.x != 0) return;
    atomicAdd(&y[0], x[blockIdx.x]);                               // total 1
    if (atomicAdd(flags, 1) == gridDim.x - 1) y[64] = y[0] * 2.0f; // total 2
}
extern "C" __global__ void total_clean(float* y, const float* x, unsigned* flags) {
    if (threadIdx.x != 0) return;
    atomicAdd(&y[0], x[blockIdx.x]);
    __threadfence();
    if (atomicAdd(flags, 1) == gridDim.x - 1) y[64] = y[0] * 2.0f;
}

// Counts by atomics behind a fence, more of them than are kept apart; the last block reads them.
extern "C" __global__ void tally_racy(unsigned* y, const float* x, unsigned* flags) {
    __shared__ bool last;
    for (unsigned i = threadIdx.x * 100; i < threadIdx.x * 100 + 100; i++)
        atomicAdd(&y[i % 4096], x[i % 4096] == 0.0f);  // tally 1
    __syncthreads();
    if (threadIdx.x == 0) last = atomicAdd(flags, 1) == gridDim.x - 1;
    __syncthreads();
    if (last && y[threadIdx.x * 50] > 100) flags[1] = 1;  // tally 2
}
extern "C" __global__ void tally_clean(unsigned* y, const float* x, unsigned* flags) {
    __shared__ bool last;
    __threadfence();
    for (unsigned i = threadIdx.x * 100; i < threadIdx.x * 100 + 100; i++)
        atomicAdd(&y[i % 4096], x[i % 4096] == 0.0f);
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) last = atomicAdd(flags, 1) == gridDim.x - 1;
    __syncthreads();
    if (last && y[threadIdx.x * 50] > 100) flags[1] = 1;
}

// Vectors of four: one element of each is another block's.
extern "C" __global__ void vectors_racy(float* y, const float* x) {
    int i = blockIdx.x * 64 + threadIdx.x;
    *(float4*)&y[4 * i] = *(const float4*)&x[4 * i];                 // vectors 1
    if (blockIdx.x > 0 && threadIdx.x == 0) y[4 * i - 1] = 1.0f;     // vectors 2
}
extern "C" __global__ void vectors_clean(float* y, const float* x) {
    int i = blockIdx.x * 64 + threadIdx.x;
    *(float4*)&y[4 * i] = *(const float4*)&x[4 * i];
    y[4 * i + 3] = 0.0f;
}

// Structures, copied as a whole: one field is written by the block behind.
struct Row {
    float values[40];
};
extern "C" __global__ void rows_racy(Row* y, const Row* x) {
    if (threadIdx.x != 0) return;
    y[blockIdx.x] = x[blockIdx.x];                                   // rows 1
    if (blockIdx.x > 0) y[blockIdx.x - 1].values[33] = 1.0f;         // rows 2
}
extern "C" __global__ void rows_clean(Row* y, const Row* x) {
    if (threadIdx.x != 0) return;
    y[blockIdx.x] = x[blockIdx.x];
    y[blockIdx.x].values[33] = 1.0f;
}

// An atomic of block scope is none to another block.
extern "C" __global__ void block_scope_racy(float* y) {
    atomicAdd_block(&y[threadIdx.x % 3], 1.0f);                      // block_scope 1
}
extern "C" __global__ void block_scope_clean(float* y) {
    atomicAdd_block(&y[3 * blockIdx.x + threadIdx.x % 3], 1.0f);
    atomicAdd(&y[64 + threadIdx.x % 3], 1.0f);
}
