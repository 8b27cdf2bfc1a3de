// Sums over blocks and warps, as people write them: what lowgraph's own kernels do without.

// The block's sum of x, for every thread; tree [blockDim.x]. Barrier before `tree` is used again.
__device__ __forceinline__ float tree_sum(float* tree, float x)
{
    int t = threadIdx.x;
    tree[t] = x;
    __syncthreads();
    for (int s = blockDim.x / 2; s > 0; s >>= 1) {
        if (t < s) tree[t] += tree[t + s];
        __syncthreads();
    }
    return tree[0];
}

// Overwrites out[block] with the sum of the block's elements of x [n].
// Launch: block 128, grid ceil(n/128).
extern "C" __global__ void block_sum(float* out, const float* x, int n)
{
    __shared__ float tree[128];
    unsigned t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    tree[t] = i < n ? x[i] : 0.0f;
    __syncthreads();
    for (unsigned s = blockDim.x / 2; s > 0; s >>= 1) {
        if (t < s) {
            tree[t] += tree[t + s];
        }
        __syncthreads();
    }
    if (t == 0) out[blockIdx.x] = tree[0];
}

// Overwrites mean and variance [rows] of the rows of x [rows,C].
// Launch: block 128, grid rows.
extern "C" __global__ void row_stats(
    float* mean, float* variance, const float* x, int C)
{
    __shared__ float tree[128];
    const float* row = x + (size_t)blockIdx.x * C;
    float sum = 0.0f, squares = 0.0f;
    for (int c = threadIdx.x; c < C; c += blockDim.x) sum += row[c];
    float average = tree_sum(tree, sum) / C;
    __syncthreads();  // every thread has its sum
    for (int c = threadIdx.x; c < C; c += blockDim.x) {
        squares += (row[c] - average) * (row[c] - average);
    }
    squares = tree_sum(tree, squares);
    if (threadIdx.x == 0) {
        mean[blockIdx.x] = average;
        variance[blockIdx.x] = squares / C;
    }
}

// Overwrites out [blocks,4] with the sums of x [n] over each warp's elements.
// Launch: block 128, grid ceil(n/128).
extern "C" __global__ void warp_sum(float* out, const float* x, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % 32;
    float v = i < n ? x[i] : 0.0f;
    for (int d = 16; d > 0; d >>= 1) {
        v += __shfl_down_sync(0xffffffffu, v, d);
    }
    if (lane == 0) out[blockIdx.x * 4 + threadIdx.x / 32] = v;
}

// Overwrites out [n] with x minus the first element of its warp's 32.
// Launch: block 128, grid ceil(n/128).
extern "C" __global__ void from_first(float* out, const float* x, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned members = __ballot_sync(0xffffffffu, i < n);
    if (i >= n) return;
    float first = __shfl_sync(members, x[i], 0);
    out[i] = x[i] - first;
}

// Adds the sum of x [n] to total [1].
// Launch: block 64, grid ceil(n/64).
extern "C" __global__ void sum_all(float* total, const float* x, int n)
{
    __shared__ float tree[64];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = tree_sum(tree, i < n ? x[i] : 0.0f);
    if (threadIdx.x == 0) atomicAdd(total, sum);
}

// Overwrites out [1] with the sum of x [n]; the block that comes last adds the partial sums.
// partial [blocks]; ticket [1], zero before and after.
// Launch: block 64, grid ceil(n/64).
extern "C" __global__ void last_block_sum(
    float* out, float* partial, unsigned* ticket, const float* x, int n)
{
    __shared__ float tree[64];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = tree_sum(tree, i < n ? x[i] : 0.0f);
    if (threadIdx.x > 0) return;
    partial[blockIdx.x] = sum;
    __threadfence();  // the partial sum before the ticket
    bool last = atomicAdd(ticket, 1u) == gridDim.x - 1;
    if (!last) return;
    __threadfence();  // the ticket before the others' sums
    float total = 0.0f;
    for (int b = 0; b < gridDim.x; b++) {
        total += partial[b];
    }
    out[0] = total;
    atomicExch(ticket, 0u);
}

// Adds the sum of x [n] to total [1], in double, under a lock [1] that is zero before and after.
// Launch: block 64, grid ceil(n/64).
extern "C" __global__ void locked_sum(
    volatile double* total, unsigned* lock, const float* x, int n)
{
    __shared__ float tree[64];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = tree_sum(tree, i < n ? x[i] : 0.0f);
    if (threadIdx.x > 0) return;
    while (atomicCAS(lock, 0u, 1u) != 0u) {
    }
    __threadfence();
    total[0] = total[0] + sum;
    __threadfence();
    atomicExch(lock, 0u);
}
