// Parameters of kernel nodes: arguments packed as a launch packs them, launch attributes.
#include "context.h"
#include "handles.h"
#include "launch.h"
#include "module.h"
#include "node_params.h"

namespace lowgraph {

CUresult read_params(const CUDA_KERNEL_NODE_PARAMS& params, Work* work) {
    const CUfunction handle = params.func != nullptr ? params.func : reinterpret_cast<CUfunction>(params.kern);
    KernelWork kernel;
    kernel.function = find_function(handle);
    if (kernel.function == nullptr) return CUDA_ERROR_INVALID_VALUE;
    kernel.context = params.ctx != nullptr ? find_context(params.ctx) : current_context();
    kernel.grid = {params.gridDimX, params.gridDimY, params.gridDimZ};
    kernel.block = {params.blockDimX, params.blockDimY, params.blockDimZ};
    kernel.shared_bytes = params.sharedMemBytes;
    if (const auto* now = std::get_if<KernelWork>(work)) kernel.cluster = now->cluster;  // it holds the new grid
    if (const CUresult code = check_launch(kernel); code != CUDA_SUCCESS) return code;
    const CUresult code =
        pack_arguments(*kernel.function, params.kernelParams, params.extra, &kernel.args);
    if (code == CUDA_SUCCESS) *work = std::move(kernel);
    return code;
}

CUresult write_params(Node& node, CUDA_KERNEL_NODE_PARAMS* params) {
    KernelWork& work = std::get<KernelWork>(node.work);
    if (work.function->module == nullptr) return CUDA_ERROR_INVALID_HANDLE;  // its entry went too
    const KernelEntry& entry = *work.function->entry;
    node.argument_pointers.clear();
    for (int i = 0; i < entry.param_count; ++i)
        node.argument_pointers.push_back(work.args.data() + entry.offsets[i]);
    *params = CUDA_KERNEL_NODE_PARAMS{};
    params->func = handle_of(work.function);
    Context* const home = work.function->module->context;
    if (home == nullptr) params->kern = reinterpret_cast<CUkernel>(params->func);  // a library's
    params->ctx = reinterpret_cast<CUcontext>(home != nullptr ? home : work.context);
    params->gridDimX = work.grid.x, params->gridDimY = work.grid.y, params->gridDimZ = work.grid.z;
    params->blockDimX = work.block.x, params->blockDimY = work.block.y, params->blockDimZ = work.block.z;
    params->sharedMemBytes = work.shared_bytes;
    params->kernelParams = node.argument_pointers.empty() ? nullptr : node.argument_pointers.data();
    return CUDA_SUCCESS;
}

static void take_attributes(const KernelWork& from, KernelWork& to) {
    to.cooperative = from.cooperative;
    to.cluster = from.cluster;
    to.priority = from.priority;
    to.attributes = from.attributes;
    to.launched = from.launched;
}

void keep_attributes(const Work& now, Work& next) {
    const auto* const kernel = std::get_if<KernelWork>(&now);
    auto* const to = std::get_if<KernelWork>(&next);
    if (kernel != nullptr && to != nullptr) take_attributes(*kernel, *to);
    const auto* const copy = std::get_if<CopyWork>(&now);
    if (auto* copied = std::get_if<CopyWork>(&next); copy != nullptr && copied != nullptr && !copied->context)
        copied->context = copy->context;
    const auto* const fill = std::get_if<FillWork>(&now);
    if (auto* filled = std::get_if<FillWork>(&next); fill != nullptr && filled != nullptr && !filled->context)
        filled->context = fill->context;
}

CUresult copy_attributes(const KernelWork& from, KernelWork& to) {
    if (!share_context(home_of(from), home_of(to))) return CUDA_ERROR_INVALID_VALUE;
    KernelWork next = to;
    take_attributes(from, next);
    if (!cluster_fits(next)) return CUDA_ERROR_INVALID_VALUE;
    to = std::move(next);
    return CUDA_SUCCESS;
}

}  // namespace lowgraph
