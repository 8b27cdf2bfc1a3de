// Kernels of the scenarios with conditional nodes. Launch: one thread each.
#include "../../kernels_cu/common/conditional.cuh"

// condition = value
extern "C" __global__ void steer(cudaGraphConditionalHandle handle, unsigned int value)
{
    cudaGraphSetConditional(handle, value);
}

// ++count; condition = count < limit, and the loop ends in any case after 1000 rounds.
extern "C" __global__ void count_to(cudaGraphConditionalHandle handle, int* count, int limit)
{
    count[0] += 1;
    cudaGraphSetConditional(handle, count[0] < limit && count[0] < 1000);
}

// ++round; condition = round is no multiple of limit.
extern "C" __global__ void round_to(cudaGraphConditionalHandle handle, int* round, int limit)
{
    round[0] += 1;
    cudaGraphSetConditional(handle, round[0] % limit != 0 && round[0] < 1000);
}

extern "C" __global__ void bump(int* count, int by)
{
    count[0] += by;
}
