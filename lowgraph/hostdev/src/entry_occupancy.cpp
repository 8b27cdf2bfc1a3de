// Occupancy: a CPU has none; the answers follow the limits of compute capability 9.0, so that code
// which derives a launch shape from them gets a usable one.
#include <algorithm>

#include "device.h"
#include "launch.h"

using namespace lowgraph;

namespace {

CUresult count_blocks(int* blocks, CUfunction handle, int block_threads, size_t dynamic_shared) {
    const Function* function = find_function(handle);
    if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (blocks == nullptr || block_threads <= 0) return CUDA_ERROR_INVALID_VALUE;
    *blocks = resident_blocks(*function, block_threads, dynamic_shared);
    return CUDA_SUCCESS;
}

// The largest block of whole warps within all limits; callers loop over blocks anyway.
CUresult suggest_block(int* min_grid, int* block, CUfunction handle, CUoccupancyB2DSize shared_of,
                       size_t shared, int limit) {
    const Function* function = find_function(handle);
    if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (min_grid == nullptr || block == nullptr) return CUDA_ERROR_INVALID_VALUE;
    int most = std::min<int>(max_block_threads, static_cast<int>(function->entry->max_threads));
    if (limit > 0) most = std::min(most, limit);
    for (int threads = most; threads > 0; threads = (threads - 1) / 32 * 32) {
        const size_t dynamic = shared_of != nullptr ? shared_of(threads) : shared;
        const int blocks = resident_blocks(*function, threads, dynamic);
        if (blocks == 0) continue;
        *block = threads;
        *min_grid = blocks * multiprocessors();
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_VALUE;
}

}  // namespace

LOWGRAPH_API CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction function,
                                                                  int block_threads,
                                                                  size_t dynamic_shared) {
    LOWGRAPH_ENTRY(context);
    return count_blocks(blocks, function, block_threads, dynamic_shared);
}

LOWGRAPH_API CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int* blocks, CUfunction function, int block_threads, size_t dynamic_shared, unsigned) {
    LOWGRAPH_ENTRY(context);
    return count_blocks(blocks, function, block_threads, dynamic_shared);
}

LOWGRAPH_API CUresult cuOccupancyMaxPotentialBlockSize(int* min_grid, int* block,
                                                       CUfunction function,
                                                       CUoccupancyB2DSize shared_of, size_t shared,
                                                       int limit) {
    LOWGRAPH_ENTRY(context);
    return suggest_block(min_grid, block, function, shared_of, shared, limit);
}

LOWGRAPH_API CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int* min_grid, int* block,
                                                                CUfunction function,
                                                                CUoccupancyB2DSize shared_of,
                                                                size_t shared, int limit,
                                                                unsigned) {
    LOWGRAPH_ENTRY(context);
    return suggest_block(min_grid, block, function, shared_of, shared, limit);
}
