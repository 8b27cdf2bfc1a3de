// Kernels that steer conditional nodes. Launch: one thread each.
#include "common/conditional.cuh"

// ++count[0]; condition = count[0] < limit[0].
extern "C" __global__ void count_to(cudaGraphConditionalHandle handle, int* count, const int* limit)
{
    count[0] += 1;
    cudaGraphSetConditional(handle, count[0] < limit[0]);
}

// condition = value[0].
extern "C" __global__ void decide(cudaGraphConditionalHandle handle, const int* value)
{
    cudaGraphSetConditional(handle, (unsigned)value[0]);
}

// count[0] += by.
extern "C" __global__ void bump(int* count, int by)
{
    count[0] += by;
}
