// What is known about an address; registered host memory, module globals; the device's size.
#include "engine.h"
#include "memory_tables.h"

namespace lowgraph {
namespace {

CUresult add_outside(RegionKind kind, uint64_t address, size_t bytes, unsigned flags,
                     const std::string& name, const Context* owner) {
    Tables& all = tables();
    const TableLock hold(all.lock);
    const auto behind = all.regions.lower_bound(address);
    if (behind != all.regions.end() && behind->first < address + bytes)
        return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    if (region_at(address) != nullptr) return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    Region region;
    region.address = address;
    region.bytes = bytes;
    region.kind = kind;
    region.id = all.next_id++;
    region.flags = flags;
    region.name = name;
    region.owner = owner;
    all.regions[address] = region;
    return CUDA_SUCCESS;
}

bool remove_outside(RegionKind kind, uint64_t address) {
    Tables& all = tables();
    const TableLock hold(all.lock);
    const auto spot = all.regions.find(address);
    if (spot == all.regions.end() || spot->second.kind != kind) return false;
    all.regions.erase(spot);
    return true;
}

}  // namespace

CUresult register_host(uint64_t address, size_t bytes, unsigned flags, const Context* owner) {
    Region region;
    const bool ours = find_region(address, 1, &region) && region.kind == RegionKind::host;
    if (address == 0 || bytes == 0 || ours) return CUDA_ERROR_INVALID_VALUE;
    return add_outside(RegionKind::registered, address, bytes, flags, "", owner);
}

CUresult unregister_host(uint64_t address) {
    return remove_outside(RegionKind::registered, address) ? CUDA_SUCCESS
                                                           : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}

void register_global(uint64_t address, size_t bytes, const std::string& name) {
    add_outside(RegionKind::global, address, bytes, 0, name, nullptr);  // found again: already there
}

void unregister_global(uint64_t address) { remove_outside(RegionKind::global, address); }

bool find_region(uint64_t address, size_t bytes, Region* region) {
    const TableLock hold(tables().lock);
    const Region* found = live_region(address, bytes);
    if (found == nullptr) return false;
    *region = *found;
    return true;
}

bool find_part(uint64_t address, uint64_t* start, uint64_t* end) {
    Tables& all = tables();
    const TableLock hold(all.lock);
    const auto behind = all.slices.upper_bound(address);
    if (behind != all.slices.begin()) {
        const Slice& slice = std::prev(behind)->second;
        *start = slice.address;
        *end = slice.address + slice.bytes;
        if (address < *end) return true;
    }
    const Region* region = live_region(address, 1);
    if (region == nullptr) return false;
    *start = region->address;
    *end = region->address + region->bytes;
    return true;
}

void mark_closing(uint64_t address) {
    const TableLock hold(tables().lock);
    if (Region* region = live_region(address, 1)) region->state = RegionState::closing;
}

bool is_host_memory(const Region& region) {
    const bool of_host_pool = region.kind == RegionKind::pool && region.pool == PoolKind::host;
    return region.kind == RegionKind::host || region.kind == RegionKind::registered || of_host_pool;
}

bool is_managed_memory(const Region& region) {
    return region.kind == RegionKind::managed ||
           (region.kind == RegionKind::pool && region.pool == PoolKind::managed);
}

bool is_managed(uint64_t address) {
    const TableLock hold(tables().lock);
    const Region* region = live_region(address, 1);
    return region != nullptr && is_managed_memory(*region);
}

bool is_mapped(uint64_t address) {
    const TableLock hold(tables().lock);
    const Region* region = live_region(address, 1);
    if (region == nullptr) return false;
    const bool of_pool = region->kind == RegionKind::pool && region->pool == PoolKind::device && !region->of_graph;
    return of_pool || region->kind == RegionKind::mapped;
}

void note_advice(uint64_t address, const std::function<void(Advice&)>& note) {
    const TableLock hold(tables().lock);
    if (Region* region = live_region(address, 1)) note(region->advice);
}

const Context* owner_of(uint64_t address) {
    const TableLock hold(tables().lock);
    const Region* region = live_region(address, 1);
    return region == nullptr ? nullptr : region->owner;
}

CUmemorytype memory_type(uint64_t address) {
    const TableLock hold(tables().lock);
    const Region* region = region_at(address);
    if (region == nullptr)
        return in_device_memory(address) ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
    return is_host_memory(*region) ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
}

bool is_pinned(uint64_t address, size_t bytes) {
    const TableLock hold(tables().lock);
    return live_region(address, bytes) != nullptr;
}

bool in_device_memory(uint64_t address) {
    const Tables& all = tables();
    return address >= all.base && address < all.end;
}

void set_memory_size(size_t bytes) {
    const TableLock hold(tables().lock);
    tables().size = bytes;
}

size_t memory_size() {
    const TableLock hold(tables().lock);
    return tables().size;
}

void memory_info(size_t* free_bytes, size_t* total_bytes) {
    const Tables& all = tables();
    const TableLock hold(tables().lock);
    *total_bytes = all.size;
    *free_bytes = all.size > all.used ? all.size - all.used : 0;
}

size_t pool_bytes(bool high_water) {
    const TableLock hold(tables().lock);
    return high_water ? tables().pool_peak : tables().pool_used;
}

void reset_pool_high_water() {
    const TableLock hold(tables().lock);
    tables().pool_peak = tables().pool_used;
}

size_t graph_bytes(bool high_water) {
    const TableLock hold(tables().lock);
    return high_water ? tables().graph_peak : tables().graph_used;
}

void reset_graph_high_water() {
    const TableLock hold(tables().lock);
    tables().graph_peak = tables().graph_used;
}

}  // namespace lowgraph
