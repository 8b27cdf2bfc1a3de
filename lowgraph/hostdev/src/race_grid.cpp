#include "race_grid.h"

namespace lowgraph {

Site Grid::site(uint64_t thread, uint64_t pc) const {
    const uint64_t block = thread / block_threads();
    const auto inside = static_cast<uint32_t>(thread % block_threads());
    Site site;
    site.kernel = kernel;
    site.pc = pc;
    site.block[0] = static_cast<uint32_t>(block % blocks[0]);
    site.block[1] = static_cast<uint32_t>(block / blocks[0] % blocks[1]);
    site.block[2] = static_cast<uint32_t>(block / blocks[0] / blocks[1]);
    site.thread[0] = inside % threads[0];
    site.thread[1] = inside / threads[0] % threads[1];
    site.thread[2] = inside / threads[0] / threads[1];
    return site;
}

Grid grid_of(const Launch& launch) {
    return {launch.kernel, {launch.grid[0], launch.grid[1]},
            {launch.block[0], launch.block[1], launch.block[2]}};
}

}  // namespace lowgraph
