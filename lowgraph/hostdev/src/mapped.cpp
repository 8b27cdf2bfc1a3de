#include "mapped.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <map>

#include "memory.h"
#include "queue.h"

namespace lowgraph {
namespace {

// Pages of a file in memory, which is what can be seen at several addresses.
struct Physical {
    int file;
    size_t bytes;
    unsigned handles = 1;   // given out and not released
    unsigned mappings = 0;  // it stays for these too
};

struct Mapping {
    size_t bytes;
    Physical* memory;
    CUmemAccess_flags access;
};

struct State {
    std::map<uint64_t, size_t> ranges;
    std::map<uint64_t, Mapping> mappings;
    std::unordered_map<const Physical*, std::unique_ptr<Physical>> physical;
};

State& state() {
    static State* const instance = new State;
    return *instance;
}

Physical* find_physical(CUmemGenericAllocationHandle handle) {
    const auto spot = state().physical.find(reinterpret_cast<const Physical*>(handle));
    return spot == state().physical.end() ? nullptr : spot->second.get();
}

void drop_unused(Physical& memory) {
    if (memory.handles + memory.mappings != 0) return;
    close(memory.file);
    uncharge_bytes(memory.bytes);
    state().physical.erase(&memory);
}

bool is_whole(size_t bytes) { return bytes != 0 && bytes % map_piece == 0; }

bool in_one_range(uint64_t start, size_t bytes) {
    const auto behind = state().ranges.upper_bound(start);
    if (behind == state().ranges.begin()) return false;
    const auto& [first, size] = *std::prev(behind);
    return start - first <= size && bytes <= size - (start - first);
}

using Spot = std::map<uint64_t, Mapping>::iterator;

// The mappings that reach into [start, start + bytes).
std::vector<Spot> mappings_in(uint64_t start, size_t bytes) {
    std::vector<Spot> found;
    auto& all = state().mappings;
    for (auto spot = all.begin(); spot != all.end() && spot->first < start + bytes; ++spot)
        if (spot->first + spot->second.bytes > start) found.push_back(spot);
    return found;
}

// False: one is cut by an end of it.
bool are_inside(const std::vector<Spot>& mappings, uint64_t start, size_t bytes) {
    for (const Spot& spot : mappings)
        if (spot->first < start || spot->first + spot->second.bytes > start + bytes) return false;
    return true;
}

bool are_all_of(const std::vector<Spot>& mappings, uint64_t start, size_t bytes) {
    size_t sum = 0;
    for (const Spot& spot : mappings) sum += spot->second.bytes;
    return are_inside(mappings, start, bytes) && sum == bytes;
}

Spot mapping_at(uint64_t address) {
    auto& all = state().mappings;
    const auto behind = all.upper_bound(address);
    if (behind == all.begin()) return all.end();
    const auto spot = std::prev(behind);
    return address - spot->first < spot->second.bytes ? spot : all.end();
}

}  // namespace

CUresult reserve_range(size_t bytes, size_t alignment, uint64_t* start) {
    if (!is_whole(bytes) || (alignment & (alignment - 1)) != 0) return CUDA_ERROR_INVALID_VALUE;
    const CUresult code = reserve_addresses(bytes, std::max(alignment, map_piece), start);
    if (code == CUDA_SUCCESS) state().ranges[*start] = bytes;
    return code;
}

CUresult free_range(uint64_t start, size_t bytes) {
    const auto spot = state().ranges.find(start);
    if (spot == state().ranges.end() || spot->second != bytes) return CUDA_ERROR_INVALID_VALUE;
    if (!mappings_in(start, bytes).empty()) return CUDA_ERROR_INVALID_VALUE;
    state().ranges.erase(spot);
    give_back_addresses(start);
    return CUDA_SUCCESS;
}

// What nobody has written reads as NaN, as in other fresh memory.
CUresult create_physical(size_t bytes, CUmemGenericAllocationHandle* handle) {
    if (!is_whole(bytes)) return CUDA_ERROR_INVALID_VALUE;
    if (!charge_bytes(bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
    const int file = memfd_create("lowgraph-memory", MFD_CLOEXEC);
    void* pages = MAP_FAILED;
    if (file >= 0 && ftruncate(file, static_cast<off_t>(bytes)) == 0)
        pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (pages == MAP_FAILED) {
        if (file >= 0) close(file);
        uncharge_bytes(bytes);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    std::memset(pages, 0xFF, bytes);
    munmap(pages, bytes);
    auto memory = std::make_unique<Physical>(Physical{file, bytes});
    *handle = reinterpret_cast<CUmemGenericAllocationHandle>(memory.get());
    state().physical[memory.get()] = std::move(memory);
    return CUDA_SUCCESS;
}

CUresult release_physical(CUmemGenericAllocationHandle handle) {
    Physical* const memory = find_physical(handle);
    if (memory == nullptr || memory->handles == 0) return CUDA_ERROR_INVALID_VALUE;
    --memory->handles;
    drop_unused(*memory);
    return CUDA_SUCCESS;
}

bool is_physical(CUmemGenericAllocationHandle handle) { return find_physical(handle) != nullptr; }

CUresult map_physical(uint64_t start, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle) {
    Physical* const memory = find_physical(handle);
    if (memory == nullptr || bytes == 0 || start % map_piece != 0) return CUDA_ERROR_INVALID_VALUE;
    if (offset != 0 || bytes != memory->bytes) return CUDA_ERROR_NOT_SUPPORTED;
    if (!in_one_range(start, bytes) || !mappings_in(start, bytes).empty()) return CUDA_ERROR_INVALID_VALUE;
    state().mappings[start] = {bytes, memory, CU_MEM_ACCESS_FLAGS_PROT_NONE};
    ++memory->mappings;
    return CUDA_SUCCESS;
}

CUresult unmap_range(uint64_t start, size_t bytes, Lock& lock) {
    finish_issued(lock);  // work in flight may use the memory
    if (!in_one_range(start, bytes)) return CUDA_ERROR_INVALID_VALUE;
    const std::vector<Spot> found = mappings_in(start, bytes);
    if (!are_inside(found, start, bytes)) return CUDA_ERROR_INVALID_VALUE;
    for (const Spot& spot : found) {
        close_addresses(spot->first);
        --spot->second.memory->mappings;
        drop_unused(*spot->second.memory);
        state().mappings.erase(spot);
    }
    return CUDA_SUCCESS;
}

// Reading alone is told of, not held to: what may be read may be written.
CUresult set_range_access(uint64_t start, size_t bytes, CUmemAccess_flags access, Lock& lock) {
    if (access == CU_MEM_ACCESS_FLAGS_PROT_NONE) finish_issued(lock);
    const std::vector<Spot> found = mappings_in(start, bytes);
    if (bytes == 0 || !are_all_of(found, start, bytes)) return CUDA_ERROR_INVALID_VALUE;
    for (const Spot& spot : found) {
        Mapping& mapping = spot->second;
        const bool was_open = mapping.access != CU_MEM_ACCESS_FLAGS_PROT_NONE;
        const bool opens = access != CU_MEM_ACCESS_FLAGS_PROT_NONE;
        if (opens && !was_open)
            if (const CUresult full = open_addresses(spot->first, mapping.bytes, mapping.memory->file);
                full != CUDA_SUCCESS)
                return full;
        if (!opens && was_open) close_addresses(spot->first);
        mapping.access = access;
    }
    return CUDA_SUCCESS;
}

CUresult range_access(uint64_t address, unsigned long long* access) {
    const Spot spot = mapping_at(address);
    if (spot == state().mappings.end()) return CUDA_ERROR_INVALID_VALUE;
    *access = spot->second.access;
    return CUDA_SUCCESS;
}

CUresult physical_at(uint64_t address, CUmemGenericAllocationHandle* handle) {
    const Spot spot = mapping_at(address);
    if (spot == state().mappings.end()) return CUDA_ERROR_INVALID_VALUE;
    ++spot->second.memory->handles;
    *handle = reinterpret_cast<CUmemGenericAllocationHandle>(spot->second.memory);
    return CUDA_SUCCESS;
}

void forget_mappings() {
    State& all = state();
    for (const auto& [start, mapping] : all.mappings) close_addresses(start);
    for (const auto& [start, bytes] : all.ranges) give_back_addresses(start);
    for (const auto& [key, memory] : all.physical) close(memory->file);
    all = State{};
}

}  // namespace lowgraph
