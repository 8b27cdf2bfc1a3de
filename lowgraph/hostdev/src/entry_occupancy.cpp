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

// What is left for dynamic shared memory if `blocks` blocks share a multiprocessor.
CUresult shared_left(size_t* bytes, CUfunction handle, int blocks, int block_threads) {
    const Function* function = find_function(handle);
    if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (bytes == nullptr || blocks <= 0 || resident_blocks(*function, block_threads, 0) < blocks)
        return CUDA_ERROR_INVALID_VALUE;
    const size_t statics = function->entry->static_shared;
    const size_t share = std::min<size_t>(shared_per_multiprocessor / blocks, shared_limit);
    *bytes = share - statics;  // not negative: `blocks` of them fit without any
    return CUDA_SUCCESS;
}

int threads_of(const CUlaunchConfig& config) {
    const uint64_t threads = uint64_t{config.blockDimX} * config.blockDimY * config.blockDimZ;
    return threads > max_block_threads ? 0 : static_cast<int>(threads);
}

// Blocks of a cluster, 1 without the attribute; 0: larger than any that can be launched.
int cluster_blocks(const CUlaunchConfig& config) {
    for (unsigned i = 0; i < config.numAttrs; ++i) {
        if (config.attrs[i].id != CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) continue;
        const auto& size = config.attrs[i].value.clusterDim;
        const uint64_t blocks = uint64_t{size.x} * size.y * size.z;
        return blocks > max_cluster_blocks ? 0 : static_cast<int>(blocks);
    }
    return 1;
}

using Judge = int (*)(int resident, const CUlaunchConfig& config);

CUresult judge_clusters(int* out, CUfunction handle, const CUlaunchConfig* config, Judge judge) {
    const Function* function = find_function(handle);
    if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (out == nullptr || config == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const int threads = threads_of(*config);
    if (threads == 0 || cluster_blocks(*config) == 0) return CUDA_ERROR_INVALID_VALUE;
    *out = judge(resident_blocks(*function, threads, config->sharedMemBytes), *config);
    return CUDA_SUCCESS;
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

LOWGRAPH_API CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t* bytes, CUfunction function,
                                                              int blocks, int block_threads) {
    LOWGRAPH_ENTRY(context);
    return shared_left(bytes, function, blocks, block_threads);
}

// A cluster's blocks may lie on any multiprocessors: only the launch limit bounds it.
LOWGRAPH_API CUresult cuOccupancyMaxPotentialClusterSize(int* blocks, CUfunction function,
                                                         const CUlaunchConfig* config) {
    LOWGRAPH_ENTRY(context);
    return judge_clusters(blocks, function, config, [](int resident, const CUlaunchConfig&) {
        return resident == 0 ? 0 : max_cluster_blocks;
    });
}

LOWGRAPH_API CUresult cuOccupancyMaxActiveClusters(int* clusters, CUfunction function,
                                                   const CUlaunchConfig* config) {
    LOWGRAPH_ENTRY(context);
    const Judge count = [](int resident, const CUlaunchConfig& given) {
        return resident * multiprocessors() / cluster_blocks(given);
    };
    return judge_clusters(clusters, function, config, count);
}
