// Kernel launches, all by one path: check, pack the arguments, offer the work to the stream.
#include <optional>

#include "capture.h"
#include "launch.h"
#include "module.h"
#include "queue.h"
#include "stream.h"

using namespace lowgraph;

namespace {

// Without a priority of its own the launch has its stream's, and so has the node that it becomes.
CUresult launch(Entry& entry, CUfunction function, CUstream handle, KernelWork&& work,
                std::optional<int> priority, void** params, void** extra) {
    Stream* stream = find_stream(handle);
    work.function = find_function(function);
    if (stream == nullptr || work.function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    const Context* const home = work.function->module->context;
    if (home != nullptr && home != stream->context) {  // a capture goes on
        const CUresult standing = standing_refusal(*stream);
        return standing != CUDA_SUCCESS ? standing : CUDA_ERROR_INVALID_HANDLE;
    }
    work.priority = priority.value_or(stream->priority);
    if (const CUresult bad = check_launch(work); bad != CUDA_SUCCESS)
        return invalid_call(*stream, bad);
    const CUresult packed = pack_arguments(*work.function, params, extra, &work.args);
    if (packed != CUDA_SUCCESS) return invalid_call(*stream, packed);
    work.function->resident = true;
    return offer(entry, *stream, std::move(work));
}

// Attributes that change nothing here (cache policy, programmatic overlap, memory domains) are
// accepted.
CUresult read_attributes(const CUlaunchConfig& config, KernelWork* work,
                         std::optional<int>* priority) {
    for (unsigned i = 0; i < config.numAttrs; ++i) {
        const CUlaunchAttribute& attribute = config.attrs[i];
        const CUlaunchAttributeValue& value = attribute.value;
        switch (attribute.id) {
            case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
                work->cluster = {value.clusterDim.x, value.clusterDim.y, value.clusterDim.z};
                if (work->cluster == Dim3{0, 0, 0}) return CUDA_ERROR_INVALID_CLUSTER_SIZE;
                break;
            case CU_LAUNCH_ATTRIBUTE_COOPERATIVE: work->cooperative = value.cooperative != 0; break;
            case CU_LAUNCH_ATTRIBUTE_PRIORITY: *priority = value.priority; break;
            default: break;
        }
    }
    return CUDA_SUCCESS;
}

}  // namespace

LOWGRAPH_API CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y,
                                     unsigned grid_z, unsigned block_x, unsigned block_y,
                                     unsigned block_z, unsigned shared_bytes, CUstream stream,
                                     void** params, void** extra) {
    LOWGRAPH_STREAM_ENTRY(stream);
    KernelWork work;
    work.grid = {grid_x, grid_y, grid_z};
    work.block = {block_x, block_y, block_z};
    work.shared_bytes = shared_bytes;
    return launch(entry, function, stream, std::move(work), {}, params, extra);
}

LOWGRAPH_API CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function,
                                       void** params, void** extra) {
    LOWGRAPH_STREAM_ENTRY(config != nullptr ? config->hStream : nullptr);
    if (config == nullptr) return CUDA_ERROR_INVALID_VALUE;
    KernelWork work;
    work.grid = {config->gridDimX, config->gridDimY, config->gridDimZ};
    work.block = {config->blockDimX, config->blockDimY, config->blockDimZ};
    work.shared_bytes = config->sharedMemBytes;
    std::optional<int> priority;
    if (const CUresult bad = read_attributes(*config, &work, &priority); bad != CUDA_SUCCESS) {
        Stream* stream = find_stream(config->hStream);
        return stream != nullptr ? invalid_call(*stream, bad) : CUDA_ERROR_INVALID_HANDLE;
    }
    return launch(entry, function, config->hStream, std::move(work), priority, params, extra);
}

LOWGRAPH_API CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned grid_x,
                                                unsigned grid_y, unsigned grid_z, unsigned block_x,
                                                unsigned block_y, unsigned block_z,
                                                unsigned shared_bytes, CUstream stream,
                                                void** params) {
    LOWGRAPH_STREAM_ENTRY(stream);
    KernelWork work;
    work.grid = {grid_x, grid_y, grid_z};
    work.block = {block_x, block_y, block_z};
    work.shared_bytes = shared_bytes;
    work.cooperative = true;
    return launch(entry, function, stream, std::move(work), {}, params, nullptr);
}
