#include "launch.h"

#include <algorithm>
#include <cstring>

#include "device.h"

namespace lowgraph {
namespace {

bool within(const Dim3& size, const int (&limit)[3]) {
    const unsigned given[3] = {size.x, size.y, size.z};
    for (int i = 0; i < 3; ++i)
        if (given[i] == 0 || given[i] > static_cast<unsigned>(limit[i])) return false;
    return true;
}

uint64_t volume(const Dim3& size) { return uint64_t{size.x} * size.y * size.z; }

// The packed buffer of `extra`: pairs of a key and its value, ended by CU_LAUNCH_PARAM_END.
CUresult unpack_buffer(void** extra, std::vector<std::byte>* args) {
    const void* buffer = nullptr;
    size_t size = 0;
    for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
        if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER) buffer = extra[1];
        else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE)
            size = *static_cast<const size_t*>(extra[1]);
        else return CUDA_ERROR_INVALID_VALUE;
    }
    if (buffer == nullptr || size < args->size()) return CUDA_ERROR_INVALID_VALUE;
    std::memcpy(args->data(), buffer, args->size());
    return CUDA_SUCCESS;
}

}  // namespace

bool cluster_fits(const KernelWork& work) {
    const Dim3& cluster = work.cluster;
    if (cluster == Dim3{0, 0, 0}) return true;
    if (cluster.x == 0 || cluster.y == 0 || cluster.z == 0) return false;
    if (volume(cluster) > max_cluster_blocks) return false;
    return work.grid.x % cluster.x == 0 && work.grid.y % cluster.y == 0 &&
           work.grid.z % cluster.z == 0;
}

CUresult check_launch(const KernelWork& work) {
    const Function& function = *work.function;
    const uint64_t threads = volume(work.block);
    const uint64_t most = std::min<uint64_t>(max_block_threads, function.entry->max_threads);
    if (!within(work.grid, max_grid_dim) || !within(work.block, max_block_dim) || threads > most)
        return CUDA_ERROR_INVALID_VALUE;
    if (!cluster_fits(work)) return CUDA_ERROR_INVALID_CLUSTER_SIZE;
    if (!function.takes_shared(work.shared_bytes)) return CUDA_ERROR_INVALID_VALUE;
    const int resident = resident_blocks(function, static_cast<int>(threads), work.shared_bytes);
    if (work.cooperative && volume(work.grid) > static_cast<uint64_t>(resident) * multiprocessors())
        return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
    return CUDA_SUCCESS;
}

CUresult pack_arguments(const Function& function, void** params, void** extra,
                        std::vector<std::byte>* args) {
    const KernelEntry& entry = *function.entry;
    args->assign(function.arg_bytes(), std::byte{0});
    if (params != nullptr && extra != nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (extra != nullptr) return unpack_buffer(extra, args);
    if (params == nullptr) return entry.param_count == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    for (int i = 0; i < entry.param_count; ++i)
        std::memcpy(args->data() + entry.offsets[i], params[i], entry.sizes[i]);
    return CUDA_SUCCESS;
}

int resident_blocks(const Function& function, int block_threads, size_t dynamic_shared) {
    if (block_threads <= 0 || block_threads > max_block_threads) return 0;
    if (!function.takes_shared(dynamic_shared)) return 0;
    const int warps = (block_threads + 31) / 32;
    const int by_threads = threads_per_multiprocessor / (warps * 32);
    const size_t shared = function.entry->static_shared + dynamic_shared;
    const size_t by_shared =
        shared == 0 ? blocks_per_multiprocessor : shared_per_multiprocessor / shared;
    const size_t most = std::min<size_t>(by_shared, blocks_per_multiprocessor);
    return std::min(by_threads, static_cast<int>(most));
}

}  // namespace lowgraph
