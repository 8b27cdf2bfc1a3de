// What a barrier and a warp operation cost on the host device: nothing else is in these kernels.

// y[i] = rounds * threads   overwrites.   Launch: any grid, 1 to 1024 threads.
extern "C" __global__ void count_at_barriers(int* y, int rounds)
{
    int seen = 0;
    for (int round = 0; round < rounds; ++round) seen += __syncthreads_count(1);
    y[blockIdx.x * blockDim.x + threadIdx.x] = seen;
}

// y[i] = rounds * (sum of x over the warp)   overwrites.   Launch: blocks of a multiple of 32.
extern "C" __global__ void sum_in_warps(int* y, const int* x, int rounds)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    int total = 0;
    for (int round = 0; round < rounds; ++round) {
        int part = x[i];
        for (int other = 16; other > 0; other /= 2) part += __shfl_xor_sync(0xffffffffu, part, other);
        total += part;
    }
    y[i] = total;
}
