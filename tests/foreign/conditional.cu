// Kernels that steer conditional nodes. Launch: one thread each.
#include "common/conditional.cuh"

// total accumulates: total[0] += by[0]. The condition becomes total[0] < limit.
extern "C" __global__ void add_up_to(int* total, const int* by, int limit,
                                     cudaGraphConditionalHandle condition) {
    total[0] += by[0];
    cudaGraphSetConditional(condition, total[0] < limit);
}

// total accumulates: total[0] += by[0].
extern "C" __global__ void add(int* total, const int* by) { total[0] += by[0]; }

// The condition becomes value[0].
extern "C" __global__ void decide(const int* value, cudaGraphConditionalHandle condition) {
    cudaGraphSetConditional(condition, (unsigned)value[0]);
}
