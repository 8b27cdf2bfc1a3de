// The thread itself, its block, and the grid as far as it needs no barrier.
#pragma once

namespace cooperative_groups {

class thread_block {
public:
    static unsigned thread_rank() { return lowgraph_thread.linear; }
    static unsigned size() { return lowgraph_thread.threads; }
    static unsigned num_threads() { return lowgraph_thread.threads; }
    static dim3 group_dim() { return blockDim; }
    static dim3 dim_threads() { return blockDim; }
    static dim3 group_index() { return blockIdx; }
    static dim3 thread_index() { return threadIdx; }
    LOWGRAPH_INLINE void sync(LOWGRAPH_HERE) { __syncthreads(file, line); }
};
inline thread_block this_thread_block() { return {}; }

class grid_group {
    static unsigned long long block_number() {
        return blockIdx.x + (unsigned long long)gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    }

public:
    static bool is_valid() { return false; }  // no launch here is a cooperative one
    static unsigned long long thread_rank() {
        return block_number() * lowgraph_thread.threads + lowgraph_thread.linear;
    }
    static unsigned long long num_blocks() {
        return (unsigned long long)gridDim.x * gridDim.y * gridDim.z;
    }
    static unsigned long long num_threads() { return num_blocks() * lowgraph_thread.threads; }
    static unsigned long long size() { return num_threads(); }
    static unsigned long long block_rank() { return block_number(); }
    static dim3 block_index() { return blockIdx; }
    static dim3 dim_blocks() { return gridDim; }
    static dim3 group_dim() { return gridDim; }
    __attribute__((error("the host device has no grid barrier (grid.sync()): split the kernel in "
                         "two launches, or give it a twin under #ifdef LOWGRAPH_HOST "
                         "(docs/kernels.md)"))) void
    sync() const;
};
inline grid_group this_grid() { return {}; }

}  // namespace cooperative_groups
