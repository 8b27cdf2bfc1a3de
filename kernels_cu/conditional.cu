// Conditions of conditional graph nodes, from flags in device memory.
#include "common/conditional.cuh"

// condition = flag[0] != 0   overwrites.   flag: [1].   Launch: one thread.
// handle: of the condition, which belongs to a node of the same graph.
extern "C" __global__ void set_condition(cudaGraphConditionalHandle handle, const int* flag)
{
    cudaGraphSetConditional(handle, flag[0] != 0);
}
