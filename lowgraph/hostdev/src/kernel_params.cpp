// Parameters of kernel nodes: arguments packed as a launch packs them, launch attributes.
#include <algorithm>

#include "device.h"
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
    kernel.grid = {params.gridDimX, params.gridDimY, params.gridDimZ};
    kernel.block = {params.blockDimX, params.blockDimY, params.blockDimZ};
    kernel.shared_bytes = params.sharedMemBytes;
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
    params->ctx = reinterpret_cast<CUcontext>(work.function->module->context);
    params->gridDimX = work.grid.x, params->gridDimY = work.grid.y, params->gridDimZ = work.grid.z;
    params->blockDimX = work.block.x, params->blockDimY = work.block.y, params->blockDimZ = work.block.z;
    params->sharedMemBytes = work.shared_bytes;
    params->kernelParams = node.argument_pointers.empty() ? nullptr : node.argument_pointers.data();
    return CUDA_SUCCESS;
}

CUresult read_attribute(const KernelWork& work, CUkernelNodeAttrID id, CUkernelNodeAttrValue* value) {
    *value = {};
    if (id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) {
        value->cooperative = work.cooperative;
    } else if (id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
        value->clusterDim = {work.cluster.x, work.cluster.y, work.cluster.z};
    } else if (id == CU_LAUNCH_ATTRIBUTE_PRIORITY) {
        value->priority = std::clamp(work.priority, greatest_priority, least_priority);
    } else {
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    return CUDA_SUCCESS;
}

CUresult write_attribute(KernelWork& work, CUkernelNodeAttrID id, const CUkernelNodeAttrValue& value) {
    if (id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) {
        work.cooperative = value.cooperative != 0;
    } else if (id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
        KernelWork next = work;
        next.cluster = {value.clusterDim.x, value.clusterDim.y, value.clusterDim.z};
        if (!cluster_fits(next)) return CUDA_ERROR_INVALID_CLUSTER_SIZE;
        work.cluster = next.cluster;
    } else if (id == CU_LAUNCH_ATTRIBUTE_PRIORITY) {
        work.priority = value.priority;
    } else {
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    return CUDA_SUCCESS;
}

static void take_attributes(const KernelWork& from, KernelWork& to) {
    to.cooperative = from.cooperative;
    to.cluster = from.cluster;
    to.priority = from.priority;
}

CUresult keep_attributes(const Work& now, Work& next) {
    const auto* const from = std::get_if<KernelWork>(&now);
    auto* const to = std::get_if<KernelWork>(&next);
    if (from == nullptr || to == nullptr) return CUDA_SUCCESS;
    take_attributes(*from, *to);
    return cluster_fits(*to) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CLUSTER_SIZE;
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
