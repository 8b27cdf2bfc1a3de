// A launch whose threads are numbered through its blocks.
#pragma once
#include "check.h"

namespace lowgraph {

struct Grid {
    const KernelEntry* kernel = nullptr;  // null: no kernel
    uint32_t blocks[2] = {1, 1};          // along x and y
    uint32_t threads[3] = {1, 1, 1};      // of a block

    uint64_t block_threads() const { return uint64_t{threads[0]} * threads[1] * threads[2]; }
    Site site(uint64_t thread, uint64_t pc) const;
};

Grid grid_of(const Launch& launch);

}  // namespace lowgraph
