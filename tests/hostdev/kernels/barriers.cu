// Barriers and shared memory, for test_engine.py. Block sizes are any from 1 to 1024.

// y[block] = the sum of x over one block's part of n elements; dynamic shared memory: one float a
// thread.
extern "C" __global__ void block_sum(float* __restrict__ y, const float* __restrict__ x, int n) {
    extern __shared__ float part[];
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    part[threadIdx.x] = i < n ? x[i] : 0.0f;
    for (unsigned width = blockDim.x; width > 1; width = (width + 1) / 2) {
        __syncthreads();
        const unsigned other = threadIdx.x + (width + 1) / 2;
        if (other < width) part[threadIdx.x] += part[other];
    }
    if (threadIdx.x == 0) y[blockIdx.x] = part[0];
}

// y = x reversed inside each block, through static shared memory; ranks come from a 3-D block.
extern "C" __global__ void __launch_bounds__(1024) reverse_block(int* y, const int* x) {
    __shared__ int tile[1024];
    const unsigned threads = blockDim.x * blockDim.y * blockDim.z;
    const unsigned rank = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    tile[rank] = x[block * threads + rank];
    __syncthreads();
    y[block * threads + rank] = tile[threads - 1 - rank];
}

// counts[block] = {how many are set, all set, any set} among the block's flags; threads with
// skip[i] have returned before the barrier and do not take part.
extern "C" __global__ void barrier_votes(int* counts, const int* flags, const int* skip) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (skip[i]) return;
    const int count = __syncthreads_count(flags[i]);
    const int all = __syncthreads_and(flags[i]);
    const int any = __syncthreads_or(flags[i]);
    counts[3 * blockIdx.x] = count;
    counts[3 * blockIdx.x + 1] = all != 0;
    counts[3 * blockIdx.x + 2] = any != 0;
}

// counts[round][thread] = how many threads came to the barrier of that round; thread t comes to
// rounds[t] of them and returns. The others must not wait for it.
extern "C" __global__ void leave_in_turn(int* counts, const int* rounds) {
    for (int round = 0; round < rounds[threadIdx.x]; ++round) {
        counts[round * blockDim.x + threadIdx.x] = __syncthreads_count(1);
    }
}

// Threads of a block pass a token around in rounds: a lost or doubled wake-up gives a wrong number.
extern "C" __global__ void token_ring(int* seen, int rounds) {
    __shared__ int token;
    if (threadIdx.x == 0) token = 0;
    __syncthreads();
    for (int round = 0; round < rounds; ++round) {
        if (round % blockDim.x == threadIdx.x) ++token;
        __syncthreads();
        if (token == round + 1) ++seen[blockIdx.x * blockDim.x + threadIdx.x];
        __syncthreads();
    }
}

// No barrier at all: y[i] = the thread's coordinates packed into one number.
extern "C" __global__ void coordinates(long long* y) {
    const unsigned threads = blockDim.x * blockDim.y * blockDim.z;
    const unsigned rank = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    const long long place = blockIdx.x + 100ll * (blockIdx.y + 100ll * blockIdx.z);
    const long long thread = threadIdx.x + 1000 * (threadIdx.y + 1000 * threadIdx.z);
    y[(long long)block * threads + rank] = place * 1000000000ll + thread;
}

// seen = the first word of dynamic shared memory as each block finds it, before it writes there.
extern "C" __global__ void shared_at_start(unsigned* seen) {
    extern __shared__ unsigned words[];
    if (threadIdx.x != 0) return;
    seen[blockIdx.x] = words[0];
    words[0] = blockIdx.x;
}

extern "C" __global__ void count_atomically(int* total, float* sum, unsigned* highest,
                                            int per_thread) {
    for (int k = 0; k < per_thread; ++k) {
        atomicAdd(total, 1);
        atomicAdd(sum, 1.0f);
        atomicMax(highest, blockIdx.x * blockDim.x + threadIdx.x);
    }
}
