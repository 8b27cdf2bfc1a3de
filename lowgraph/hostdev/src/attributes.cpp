#include "attributes.h"

#include <algorithm>

#include "device.h"
#include "launch.h"

namespace lowgraph {
namespace {

using Value = CUlaunchAttributeValue;

// Only what is known to persist is no kind of miss; unknown kinds are taken.
bool is_window(const Value& value) {
    const CUaccessPolicyWindow& window = value.accessPolicyWindow;
    const bool is_share = window.hitRatio >= 0 && window.hitRatio <= 1;
    return window.num_bytes <= max_window_bytes && is_share && window.missProp != CU_ACCESS_PROPERTY_PERSISTING;
}

bool is_policy(const Value& value) {
    return value.syncPolicy >= CU_SYNC_POLICY_AUTO && value.syncPolicy <= CU_SYNC_POLICY_BLOCKING_SYNC;
}

bool is_domain(const Value& value) {
    return static_cast<unsigned>(value.memSyncDomain) <= CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE;
}

bool are_domains(const Value& value) {
    const CUlaunchMemSyncDomainMap& map = value.memSyncDomainMap;
    return std::max(map.default_, map.remote) < memory_domains;
}

bool is_any(const Value&) { return true; }

struct Kept {
    CUlaunchAttributeID id;
    bool (*is_good)(const Value& value);
    bool of_streams, of_kernels;
};
constexpr Kept kept[] = {
    {CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW, is_window, true, true},
    {CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, is_policy, true, false},
    {CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN, is_domain, true, true},
    {CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP, are_domains, true, true},
    {CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE, is_any, false, true},
    {CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, is_any, false, true},
};
// CUDA 13's NVLink-centric scheduling: taken, and not told.
constexpr auto taken_only = static_cast<CUlaunchAttributeID>(16);

const Kept* find_kept(CUlaunchAttributeID id) {
    for (const Kept& row : kept)
        if (row.id == id) return &row;
    return nullptr;
}

const Kept* of_streams(CUlaunchAttributeID id) {
    const Kept* const row = find_kept(id);
    return row != nullptr && row->of_streams ? row : nullptr;
}

const Kept* of_kernels(CUlaunchAttributeID id) {
    const Kept* const row = find_kept(id);
    return row != nullptr && row->of_kernels ? row : nullptr;
}

Value value_of(const Attributes& attributes, CUlaunchAttributeID id) {
    if (const auto spot = attributes.find(id); spot != attributes.end()) return spot->second;
    Value first{};
    if (id == CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY) first.syncPolicy = static_cast<CUsynchronizationPolicy>(-1);
    if (id == CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP) first.memSyncDomainMap = {0, 1};
    return first;
}

int within_priorities(int priority) { return std::clamp(priority, greatest_priority, least_priority); }

// No kernel here can update a node, so none is made for it.
CUresult unknown(CUlaunchAttributeID id) {
    return id == CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace

CUresult write_attribute(Stream& stream, CUlaunchAttributeID id, const Value& value) {
    if (id == CU_LAUNCH_ATTRIBUTE_PRIORITY) {
        stream.priority = within_priorities(value.priority);
        return CUDA_SUCCESS;
    }
    const Kept* const row = of_streams(id);
    if (row == nullptr || !row->is_good(value)) return CUDA_ERROR_INVALID_VALUE;
    stream.attributes[id] = value;
    return CUDA_SUCCESS;
}

CUresult read_attribute(const Stream& stream, CUlaunchAttributeID id, Value* value) {
    if (id == CU_LAUNCH_ATTRIBUTE_PRIORITY) {
        *value = {};
        value->priority = stream.priority;
        return CUDA_SUCCESS;
    }
    if (of_streams(id) == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *value = value_of(stream.attributes, id);
    return CUDA_SUCCESS;
}

void copy_attributes(const Stream& from, Stream& to) {
    to.attributes = from.attributes;
    to.priority = from.priority;
}

void inherit_attributes(const Stream& stream, KernelWork& work) {
    work.priority = stream.priority;
    for (const auto& [id, value] : stream.attributes)
        if (of_kernels(id) != nullptr) work.attributes[id] = value;
}

CUresult read_attribute(const KernelWork& work, CUlaunchAttributeID id, Value* value) {
    *value = {};
    if (id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) {
        value->cooperative = work.cooperative;
    } else if (id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
        value->clusterDim = {work.cluster.x, work.cluster.y, work.cluster.z};
    } else if (id == CU_LAUNCH_ATTRIBUTE_PRIORITY) {
        value->priority = within_priorities(work.priority);
    } else if (of_kernels(id) != nullptr) {
        *value = value_of(work.attributes, id);
    } else {
        return unknown(id);
    }
    return CUDA_SUCCESS;
}

CUresult write_attribute(KernelWork& work, CUlaunchAttributeID id, const Value& value) {
    if (id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) {
        work.cooperative = value.cooperative != 0;
    } else if (id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
        KernelWork next = work;
        next.cluster = {value.clusterDim.x, value.clusterDim.y, value.clusterDim.z};
        if (!cluster_fits(next)) return CUDA_ERROR_INVALID_CLUSTER_SIZE;
        work.cluster = next.cluster;
    } else if (id == CU_LAUNCH_ATTRIBUTE_PRIORITY) {
        work.priority = value.priority;
    } else if (const Kept* const row = of_kernels(id); row != nullptr) {
        if (!row->is_good(value)) return CUDA_ERROR_INVALID_VALUE;
        work.attributes[id] = value;
    } else if (id != taken_only) {
        return unknown(id);
    }
    return CUDA_SUCCESS;
}

}  // namespace lowgraph
