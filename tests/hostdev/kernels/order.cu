// Kernels that write down the order in which they come, for test_shuffle.py. A ticket of `counter`
// is a place in `order`.

// order[0 ..] = the threads as they begin, then as they leave a barrier, then a warp operation.
extern "C" __global__ void arrivals(int* order, int* counter) {
    order[atomicAdd(counter, 1)] = threadIdx.x;
    __syncthreads();
    order[atomicAdd(counter, 1)] = threadIdx.x;
    __syncthreads();
    __syncwarp();
    order[atomicAdd(counter, 1)] = threadIdx.x;
}

extern "C" __global__ void stamp(int* order, int* counter, int who) {
    order[atomicAdd(counter, 1)] = who + blockIdx.x;
}

// Lacks a barrier: right as long as thread 0 comes last of all.
extern "C" __global__ void sum_without_barrier(int* y, const int* x) {
    __shared__ int part[64];
    const int back = blockDim.x - 1 - threadIdx.x;
    part[back] = x[back];
    if (back != 0) return;
    int total = 0;
    for (unsigned i = 0; i < blockDim.x; ++i) total += part[i];
    y[0] = total;
}
