// Addresses that are reserved by themselves, and shared memory that comes and goes behind them.
#include <sys/mman.h>

#include <algorithm>

#include "check_bits.h"
#include "memory_tables.h"

namespace lowgraph {

// From the fresh addresses alone: what is reserved may stay so for long.
CUresult reserve_addresses(size_t bytes, size_t aligned_to, uint64_t* address) {
    Tables& all = tables();
    const TableLock hold(all.lock);
    const uint64_t start = round_up(all.next, std::max<uint64_t>(aligned_to, page_bytes));
    if (start >= all.end || all.end - start < bytes + page_bytes) return CUDA_ERROR_OUT_OF_MEMORY;
    all.next = start + bytes + page_bytes;
    all.reserved[start] = start + bytes;
    *address = start;
    return CUDA_SUCCESS;
}

void give_back_addresses(uint64_t address) {
    const TableLock hold(tables().lock);
    tables().reserved.erase(address);
}

bool is_reserved(uint64_t address) {
    const TableLock hold(tables().lock);
    const auto behind = tables().reserved.upper_bound(address);
    return behind != tables().reserved.begin() && address < std::prev(behind)->second;
}

CUresult open_addresses(uint64_t address, size_t bytes, int file) {
    Tables& all = tables();
    const TableLock hold(all.lock);
    void* const place = reinterpret_cast<void*>(address);
    if (mmap(place, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    Region region;
    region.address = region.pages = address;
    region.bytes = region.mapped = bytes;
    region.kind = RegionKind::mapped;
    region.id = all.next_id++;
    all.regions[address] = region;
    all.open.insert(address);
    all.guards_stale = true;
    mark_written(address, bytes);  // other addresses may have written the same memory
    return CUDA_SUCCESS;
}

void close_addresses(uint64_t address) {
    Tables& all = tables();
    const TableLock hold(all.lock);
    const auto spot = all.regions.find(address);
    if (spot == all.regions.end() || spot->second.kind != RegionKind::mapped) return;
    const Region& region = spot->second;
    drop_slices(region.pages, region.pages + region.mapped);
    mmap(reinterpret_cast<void*>(region.pages), region.mapped, PROT_NONE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    all.open.erase(address);
    all.guards_stale = true;
    all.regions.erase(spot);
}

bool charge_bytes(size_t bytes) {
    Tables& all = tables();
    const TableLock hold(all.lock);
    if (bytes > all.size || all.used > all.size - bytes) return false;
    all.used += bytes;
    return true;
}

void uncharge_bytes(size_t bytes) {
    const TableLock hold(tables().lock);
    tables().used -= bytes;
}

}  // namespace lowgraph
