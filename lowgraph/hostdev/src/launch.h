// What a launch must fulfil, shared by the launch calls and a graph's kernel nodes. Need big_lock.
#pragma once
#include "module.h"

namespace lowgraph {

// INVALID_VALUE for a grid, block or shared size beyond the limits of the device or of the kernel
// (__launch_bounds__, cuFuncSetAttribute), 720 for a cooperative grid that cannot be resident at
// once, 912 for a cluster that is too large or does not divide the grid.
CUresult check_launch(const KernelWork& work);

bool cluster_fits(const KernelWork& work);  // its cluster, to the limits and to its grid

// Copies the argument values, given as `params` (one pointer each) or `extra` (one packed buffer).
CUresult pack_arguments(const Function& function, void** params, void** extra,
                        std::vector<std::byte>* args);

// Blocks that one multiprocessor holds at once; 0: a block of this size does not fit.
int resident_blocks(const Function& function, int block_threads, size_t dynamic_shared);

}  // namespace lowgraph
