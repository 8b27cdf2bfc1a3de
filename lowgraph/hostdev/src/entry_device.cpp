// cuInit, the version, and the one device: name, size, attributes.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>

#include "check_settings.h"
#include "context.h"
#include "device.h"
#include "memory.h"
#include "shuffle.h"

using namespace lowgraph;

namespace {

std::string device_name() {
    const std::string name = "lowgraph host device";
    return shuffling() ? name + ", shuffle seed " + std::to_string(shuffle().seed) : name;
}

// Who did not choose the seed has to learn it, or what it found cannot be looked for again.
CUresult begin_shuffle() {
    if (!shuffle().on) return CUDA_SUCCESS;
    if (!shuffle().valid) {
        std::fprintf(stderr, "lowgraph host device: LOWGRAPH_HOST_SHUFFLE must be an integer from 0 "
                             "or the word random\n");
        return CUDA_ERROR_INVALID_VALUE;
    }
    static bool said = false;
    if (!said && shuffling()) {
        std::fprintf(stderr, "lowgraph host device: LOWGRAPH_HOST_SHUFFLE=%llu\n",
                     static_cast<unsigned long long>(shuffle().seed));
    } else if (!said) {
        std::fprintf(stderr, "lowgraph host device: LOWGRAPH_HOST_SHUFFLE is not heeded while checking\n");
    }
    said = true;
    return CUDA_SUCCESS;
}

constexpr char pci_bus_id[] = "0000:00:00.0";

struct AttributeRow {
    CUdevice_attribute attribute;
    int value;
};

// Limits of compute capability 9.0, which the kernels are written for; what a CPU has no word for
// (textures, peers, compression) is 0, the value of every attribute that is not listed.
#define A(name) CU_DEVICE_ATTRIBUTE_##name
constexpr AttributeRow attribute_rows[] = {
    {A(MAX_THREADS_PER_BLOCK), max_block_threads},
    {A(MAX_BLOCK_DIM_X), max_block_dim[0]},
    {A(MAX_BLOCK_DIM_Y), max_block_dim[1]},
    {A(MAX_BLOCK_DIM_Z), max_block_dim[2]},
    {A(MAX_GRID_DIM_X), max_grid_dim[0]},
    {A(MAX_GRID_DIM_Y), max_grid_dim[1]},
    {A(MAX_GRID_DIM_Z), max_grid_dim[2]},
    {A(MAX_SHARED_MEMORY_PER_BLOCK), default_shared_limit},
    {A(MAX_SHARED_MEMORY_PER_BLOCK_OPTIN), shared_limit},
    {A(MAX_SHARED_MEMORY_PER_MULTIPROCESSOR), shared_per_multiprocessor},
    {A(RESERVED_SHARED_MEMORY_PER_BLOCK), 1024},
    {A(TOTAL_CONSTANT_MEMORY), 65536},
    {A(WARP_SIZE), 32},
    {A(MAX_PITCH), 2147483647},
    {A(MAX_REGISTERS_PER_BLOCK), 65536},
    {A(MAX_REGISTERS_PER_MULTIPROCESSOR), 65536},
    {A(CLOCK_RATE), 1000000},
    {A(MEMORY_CLOCK_RATE), 1000000},
    {A(GLOBAL_MEMORY_BUS_WIDTH), 64},
    {A(TEXTURE_ALIGNMENT), 512},
    {A(GPU_OVERLAP), 1},
    {A(ASYNC_ENGINE_COUNT), 1},
    {A(INTEGRATED), 1},
    {A(CAN_MAP_HOST_MEMORY), 1},
    {A(COMPUTE_MODE), CU_COMPUTEMODE_DEFAULT},
    {A(CONCURRENT_KERNELS), 1},
    {A(UNIFIED_ADDRESSING), 1},
    {A(MAX_THREADS_PER_MULTIPROCESSOR), threads_per_multiprocessor},
    {A(MAX_BLOCKS_PER_MULTIPROCESSOR), blocks_per_multiprocessor},
    {A(COMPUTE_CAPABILITY_MAJOR), 9},
    {A(COMPUTE_CAPABILITY_MINOR), 0},
    {A(STREAM_PRIORITIES_SUPPORTED), 1},
    {A(GLOBAL_L1_CACHE_SUPPORTED), 1},
    {A(LOCAL_L1_CACHE_SUPPORTED), 1},
    {A(COOPERATIVE_LAUNCH), 1},
    {A(CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM), 1},
    {A(HOST_REGISTER_SUPPORTED), 1},
    {A(MEMORY_POOLS_SUPPORTED), 1},
    {A(MANAGED_MEMORY), 1},
    {A(VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED), 1},
    {A(CONCURRENT_MANAGED_ACCESS), 1},
    {A(CAN_USE_64_BIT_STREAM_MEM_OPS), 1},
    {A(CAN_USE_STREAM_WAIT_VALUE_NOR), 1},
    {A(CLUSTER_LAUNCH), 1},
    {A(MAX_ACCESS_POLICY_WINDOW_SIZE), max_window_bytes},
};
#undef A

}  // namespace

namespace lowgraph {

int multiprocessors() { return std::max(1, static_cast<int>(std::thread::hardware_concurrency())); }

int device_attribute(CUdevice_attribute attribute) {
    if (attribute == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT) return multiprocessors();
    for (const AttributeRow& row : attribute_rows)
        if (row.attribute == attribute) return row.value;
    return 0;
}

}  // namespace lowgraph

LOWGRAPH_API CUresult cuInit(unsigned flags) {
    LOWGRAPH_ENTRY(nothing);
    if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult code = begin_check(); code != CUDA_SUCCESS) return code;
    if (const CUresult code = begin_shuffle(); code != CUDA_SUCCESS) return code;
    initialise();
    return CUDA_SUCCESS;
}

LOWGRAPH_API CUresult cuDriverGetVersion(int* version) {
    LOWGRAPH_ENTRY(nothing);
    if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *version = driver_version;
    return CUDA_SUCCESS;
}

LOWGRAPH_API CUresult cuDeviceGetCount(int* count) {
    LOWGRAPH_ENTRY(driver);
    if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *count = 1;
    return CUDA_SUCCESS;
}

LOWGRAPH_API CUresult cuDeviceGet(CUdevice* device, int ordinal) {
    LOWGRAPH_ENTRY(driver);
    if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (ordinal != 0) return CUDA_ERROR_INVALID_DEVICE;
    *device = 0;
    return CUDA_SUCCESS;
}

LOWGRAPH_API CUresult cuDeviceGetName(char* name, int size, CUdevice device) {
    LOWGRAPH_ENTRY(driver);
    if (name == nullptr || size <= 0) return CUDA_ERROR_INVALID_VALUE;
    if (device != 0) return CUDA_ERROR_INVALID_DEVICE;
    const std::string own = device_name();
    const size_t count = std::min(own.size(), static_cast<size_t>(size) - 1);
    std::memcpy(name, own.data(), count);
    name[count] = '\0';
    return CUDA_SUCCESS;
}

LOWGRAPH_API CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice device) {
    LOWGRAPH_ENTRY(driver);
    if (uuid == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (device != 0) return CUDA_ERROR_INVALID_DEVICE;
    std::memcpy(uuid->bytes, "lowgraph-hostdev", sizeof uuid->bytes);
    return CUDA_SUCCESS;
}

#undef cuDeviceGetUuid
LOWGRAPH_API CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice device) {
    return cuDeviceGetUuid_v2(uuid, device);
}

LOWGRAPH_API CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice device) {
    LOWGRAPH_ENTRY(driver);
    if (bytes == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (device != 0) return CUDA_ERROR_INVALID_DEVICE;
    *bytes = memory_size();
    return CUDA_SUCCESS;
}

LOWGRAPH_API CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute,
                                           CUdevice device) {
    LOWGRAPH_ENTRY(driver);
    const bool known = attribute > 0 && attribute < CU_DEVICE_ATTRIBUTE_MAX;
    if (value == nullptr || !known) return CUDA_ERROR_INVALID_VALUE;
    if (device != 0) return CUDA_ERROR_INVALID_DEVICE;
    *value = device_attribute(attribute);
    return CUDA_SUCCESS;
}

LOWGRAPH_API CUresult cuDeviceComputeCapability(int* major, int* minor, CUdevice device) {
    LOWGRAPH_ENTRY(driver);
    if (major == nullptr || minor == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (device != 0) return CUDA_ERROR_INVALID_DEVICE;
    *major = device_attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
    *minor = device_attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
    return CUDA_SUCCESS;
}

LOWGRAPH_API CUresult cuDeviceGetPCIBusId(char* text, int size, CUdevice device) {
    LOWGRAPH_ENTRY(driver);
    if (text == nullptr || size < static_cast<int>(sizeof pci_bus_id))
        return CUDA_ERROR_INVALID_VALUE;
    if (device != 0) return CUDA_ERROR_INVALID_DEVICE;
    std::memcpy(text, pci_bus_id, sizeof pci_bus_id);
    return CUDA_SUCCESS;
}

LOWGRAPH_API CUresult cuDeviceGetByPCIBusId(CUdevice* device, const char* text) {
    LOWGRAPH_ENTRY(driver);
    if (device == nullptr || text == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (std::strcmp(text, pci_bus_id) != 0) return CUDA_ERROR_INVALID_DEVICE;
    *device = 0;
    return CUDA_SUCCESS;
}

LOWGRAPH_API CUresult cuDeviceCanAccessPeer(int* can, CUdevice device, CUdevice peer) {
    LOWGRAPH_ENTRY(driver);
    if (can == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (device != 0 || peer != 0) return CUDA_ERROR_INVALID_DEVICE;
    *can = 0;
    return CUDA_SUCCESS;
}
