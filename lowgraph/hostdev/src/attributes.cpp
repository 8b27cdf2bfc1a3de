#include "attributes.h"

#include <algorithm>
#include <cstring>

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
    size_t bytes;  // of its own in the union: what lies behind them is told as zeros
    bool (*is_good)(const Value& value);
    bool of_streams, of_kernels;
};
constexpr Kept kept[] = {
    {CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW, sizeof(CUaccessPolicyWindow), is_window, true, true},
    {CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, sizeof(CUsynchronizationPolicy), is_policy, true, false},
    {CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN, sizeof(CUlaunchMemSyncDomain), is_domain, true, true},
    {CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP, sizeof(CUlaunchMemSyncDomainMap), are_domains, true, true},
    {CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE, sizeof(CUclusterSchedulingPolicy), is_any, false, true},
    {CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, sizeof(unsigned), is_any, false, true},
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

void keep(Attributes& attributes, const Kept& row, const Value& value) {
    Value& kept_value = attributes[row.id] = Value{};
    std::memcpy(&kept_value, &value, row.bytes);
}

int within_priorities(int priority) { return std::clamp(priority, greatest_priority, least_priority); }

// No kernel here can update a node, so none is made for it.
constexpr auto updatable = CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE;

}  // namespace

CUresult write_attribute(Stream& stream, CUlaunchAttributeID id, const Value& value) {
    if (id == CU_LAUNCH_ATTRIBUTE_PRIORITY) {
        stream.priority = within_priorities(value.priority);
        return CUDA_SUCCESS;
    }
    const Kept* const row = of_streams(id);
    if (row == nullptr || !row->is_good(value)) return CUDA_ERROR_INVALID_VALUE;
    keep(stream.attributes, *row, value);
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
        const bool is_first = work.attributes.count(id) == 0;
        if (is_first && id == CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE && work.launched)
            value->clusterSchedulingPolicyPreference = CU_CLUSTER_SCHEDULING_POLICY_SPREAD;
    } else if (id != updatable) {
        return CUDA_ERROR_INVALID_VALUE;
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
        keep(work.attributes, *row, value);
    } else if (id == updatable) {
        return CUDA_ERROR_NOT_SUPPORTED;
    } else if (id != taken_only) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

CUresult take_attributes(std::span<const CUlaunchAttribute> given, KernelWork& work) {
    for (const CUlaunchAttribute& attribute : given) {
        const Value& value = attribute.value;
        switch (attribute.id) {
            case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
                work.cluster = {value.clusterDim.x, value.clusterDim.y, value.clusterDim.z};
                if (work.cluster == Dim3{0, 0, 0}) return CUDA_ERROR_INVALID_CLUSTER_SIZE;
                break;
            case CU_LAUNCH_ATTRIBUTE_COOPERATIVE: work.cooperative = value.cooperative != 0; break;
            case CU_LAUNCH_ATTRIBUTE_PRIORITY: work.priority = value.priority; break;
            case CU_LAUNCH_ATTRIBUTE_IGNORE:
            case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
            case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT:
            case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT:
            case taken_only: break;
            case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION:
                if (work.cluster == Dim3{0, 0, 0}) return CUDA_ERROR_INVALID_CLUSTER_SIZE;
                break;
            case updatable: return CUDA_ERROR_NOT_SUPPORTED;
            default:
                if (of_kernels(attribute.id) == nullptr) return CUDA_ERROR_INVALID_VALUE;
                keep(work.attributes, *of_kernels(attribute.id), value);
        }
    }
    return CUDA_SUCCESS;
}

}  // namespace lowgraph
