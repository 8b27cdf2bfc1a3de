// What a kernel tells about itself.
#include <algorithm>

#include "device.h"
#include "module.h"

namespace lowgraph {

CUresult read_attribute(const Function& function, CUfunction_attribute attribute, int* value) {
    if (value == nullptr || attribute < 0 || attribute >= CU_FUNC_ATTRIBUTE_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    const KernelEntry& entry = *function.entry;
    *value = 0;
    if (attribute == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)
        *value = std::min(static_cast<int>(entry.max_threads), max_block_threads);
    else if (attribute == CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)
        *value = static_cast<int>(entry.static_shared);
    else if (attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)
        *value = static_cast<int>(function.dynamic_shared_limit());
    else if (attribute == CU_FUNC_ATTRIBUTE_PTX_VERSION ||
             attribute == CU_FUNC_ATTRIBUTE_BINARY_VERSION)
        *value = 10 * device_attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
    return CUDA_SUCCESS;
}

CUresult write_attribute(Function& function, CUfunction_attribute attribute, int value) {
    if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)
        return CUDA_SUCCESS;  // preferences
    const int most = shared_limit - static_cast<int>(function.entry->static_shared);
    if (value < 0 || value > most) return CUDA_ERROR_INVALID_VALUE;
    function.max_dynamic_shared = static_cast<unsigned>(value);
    return CUDA_SUCCESS;
}

CUresult read_parameter(const Function& function, size_t index, size_t* offset, size_t* size) {
    const KernelEntry& entry = *function.entry;
    if (offset == nullptr || index >= static_cast<size_t>(entry.param_count))
        return CUDA_ERROR_INVALID_VALUE;
    *offset = entry.offsets[index];
    if (size != nullptr) *size = entry.sizes[index];
    return CUDA_SUCCESS;
}

const Context* home_of(const KernelWork& kernel) {
    return kernel.function->module == nullptr ? nullptr : kernel.function->module->context;
}

bool share_context(const Context* now, const Context* next) {
    return now == nullptr || next == nullptr || now == next;
}

unsigned Function::dynamic_shared_limit() const {
    return max_dynamic_shared.value_or(default_shared_limit - entry->static_shared);
}

bool Function::takes_shared(size_t dynamic) const {
    return entry->static_shared <= default_shared_limit && dynamic <= dynamic_shared_limit();
}

size_t Function::arg_bytes() const {
    if (entry->param_count == 0) return 0;
    const int last = entry->param_count - 1;
    return size_t{entry->offsets[last]} + entry->sizes[last];
}

}  // namespace lowgraph
