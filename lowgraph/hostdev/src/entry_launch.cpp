// Kernel launches, all by one path: check, pack the arguments, offer the work to the stream.
#include <span>

#include "attributes.h"
#include "capture.h"
#include "launch.h"
#include "module.h"
#include "queue.h"
#include "stream.h"

using namespace lowgraph;

namespace {

using Given = std::span<const CUlaunchAttribute>;

// An attribute that launches do not take; a capture goes on.
CUresult refused_attribute(Stream& stream, CUresult code) {
    const CUresult standing = standing_refusal(stream);
    return standing != CUDA_SUCCESS ? standing : code;
}

// What the launch does not name it has of its stream, and so has the node that it becomes.
CUresult launch(Entry& entry, CUfunction function, CUstream handle, KernelWork&& work, Given given, void** params,
                void** extra) {
    Stream* stream = find_stream(handle);
    work.function = find_function(function);
    if (stream == nullptr || work.function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    const Context* const home = work.function->module->context;
    if (home != nullptr && home != stream->context) return foreign_object(*stream);
    work.context = stream->context;
    inherit_attributes(*stream, work);
    work.launched = true;
    const CUresult taken = take_attributes(given, work);
    if (taken == CUDA_ERROR_INVALID_VALUE || taken == CUDA_ERROR_NOT_SUPPORTED) return refused_attribute(*stream, taken);
    if (taken != CUDA_SUCCESS) return invalid_call(*stream, taken);
    if (const CUresult bad = check_launch(work); bad != CUDA_SUCCESS)
        return invalid_call(*stream, bad);
    const CUresult packed = pack_arguments(*work.function, params, extra, &work.args);
    if (packed != CUDA_SUCCESS) return invalid_call(*stream, packed);
    work.function->resident = true;
    return offer(entry, *stream, std::move(work));
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
    return launch(entry, function, config->hStream, std::move(work), {config->attrs, config->numAttrs}, params, extra);
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
