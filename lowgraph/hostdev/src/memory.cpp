#include "memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "check.h"
#include "check_bits.h"
#include "engine.h"
#include "memory_tables.h"

namespace lowgraph {
namespace {

constexpr size_t largest_poisoned = size_t{1}
                                    << 30;  // filling more would commit a test's whole RAM
constexpr size_t dead_kept = 16384;

void* pointer(uint64_t address) { return reinterpret_cast<void*>(address); }

size_t default_size() {
    const auto pages = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES));
    return round_down(pages * page_bytes / 2, page_bytes);
}

// Address space costs nothing, but may be limited (ulimit -v): take what there is.
void make_reservation(Tables& all) {
    // The check build keeps a bit for each byte: less space for both.
    const int most = checking() ? 38 : 42;
    for (uint64_t bytes = uint64_t{1} << most; bytes >= uint64_t{1} << 30; bytes /= 2) {
        void* start =
            mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (start == MAP_FAILED) continue;
        all.base = reinterpret_cast<uint64_t>(start);
        all.end = all.base + bytes;
        all.next = all.base + page_bytes;  // the first page guards the first allocation's front
        return;
    }
}

// Past the ranges that are reserved by themselves.
uint64_t past_reserved(const Tables& all, uint64_t gap, uint64_t need) {
    for (const auto& [start, end] : all.reserved)
        if (gap < end && start < gap + need) gap = end + page_bytes;
    return gap;
}

// Addresses for `mapped` bytes and the guard page behind them; 0: none left. Fresh ones as long as
// there are any, so that stale pointers stay recognisable; then the dead regions' ones.
uint64_t take_addresses(Tables& all, uint64_t mapped) {
    const uint64_t need = mapped + page_bytes;
    if (all.end - all.next >= need) {
        all.next += need;
        return all.next - need;
    }
    for (const uint64_t address : all.dead) all.regions.erase(address);
    all.dead.clear();
    uint64_t gap = past_reserved(all, all.base + page_bytes, need);
    for (auto spot = all.regions.lower_bound(all.base); spot != all.regions.end(); ++spot) {
        const Region& region = spot->second;
        if (region.address >= all.end) break;
        if (region.pages >= gap + need) return gap;
        gap = past_reserved(all, region.pages + region.mapped + page_bytes, need);
    }
    return all.end >= gap + need ? gap : 0;
}

bool charge(Tables& all, const Region& region) {
    if (region.kind == RegionKind::host) return true;
    const size_t span = round_up(region.bytes, alignment);
    if (span > all.size || all.used > all.size - span) return false;
    all.used += span;
    if (region.kind == RegionKind::pool) all.pool_used += span;
    all.pool_peak = std::max(all.pool_peak, all.pool_used);
    if (region.of_graph) all.graph_used += span;
    all.graph_peak = std::max(all.graph_peak, all.graph_used);
    return true;
}

void uncharge(Tables& all, const Region& region) {
    if (region.kind == RegionKind::host) return;
    const size_t span = round_up(region.bytes, alignment);
    all.used -= span;
    if (region.kind == RegionKind::pool) all.pool_used -= span;
    if (region.of_graph) all.graph_used -= span;
}

// Fresh memory is poisoned: a kernel that reads what nobody wrote gets NaN.
bool map_pages(Region& region) {
    if (mprotect(pointer(region.pages), region.mapped, PROT_READ | PROT_WRITE) != 0) return false;
    const uint64_t end = region.pages + region.mapped;
    write_canary(region.pages, region.address);
    const bool zeros = region.kind == RegionKind::managed;  // as measured
    if (!zeros && region.bytes <= largest_poisoned)
        std::memset(pointer(region.address), 0xFF, region.bytes);
    write_canary(region.address + region.bytes, end);
    // The host writes what it sees without being watched.
    if (is_host_memory(region) || is_managed_memory(region)) mark_written(region.address, region.bytes);
    else mark_unwritten(region.address, region.bytes);
    tables().open.insert(region.address);
    tables().guards_stale = true;
    return true;
}

void unmap_pages(const Region& region) {
    drop_slices(region.pages, region.pages + region.mapped);
    mmap(pointer(region.pages), region.mapped, PROT_NONE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    tables().open.erase(region.address);
    tables().guards_stale = true;
}

void bury(Tables& all, Region& region) {
    region.state = RegionState::dead;
    all.dead.push_back(region.address);
    if (all.dead.size() <= dead_kept) return;
    all.regions.erase(all.dead.front());
    all.dead.pop_front();
}

Region* place(Tables& all, RegionKind kind, size_t bytes) {
    const uint64_t span = round_up(bytes, alignment);
    Region region;
    region.kind = kind;
    region.bytes = bytes;
    region.mapped = round_up(span, page_bytes);
    region.pages = take_addresses(all, region.mapped);
    if (region.pages == 0) return nullptr;
    region.address = region.pages + region.mapped - span;
    region.id = all.next_id++;
    return &(all.regions[region.address] = region);
}

}  // namespace

Tables& tables() {
    static Tables* const instance = [] {
        auto* all = new Tables;
        all->size = default_size();
        make_reservation(*all);
        return all;
    }();
    return *instance;
}

Region* region_at(uint64_t address) {
    auto& regions = tables().regions;
    auto spot = regions.upper_bound(address);
    if (spot == regions.begin()) return nullptr;
    Region& region = std::prev(spot)->second;
    return address < region.address + region.bytes ? &region : nullptr;
}

Region* live_region(uint64_t address, size_t bytes) {
    Region* region = region_at(address);
    if (region == nullptr || region->state == RegionState::dead) return nullptr;
    return bytes <= region->address + region->bytes - address ? region : nullptr;
}

bool is_mapped(const Region& region) {
    return tables().open.count(region.address) != 0;
}

CUresult allocate(RegionKind kind, size_t bytes, unsigned flags, const Context* owner, uint64_t* address) {
    Tables& all = tables();
    const TableLock hold(all.lock);
    if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
    if (bytes > all.end - all.base) return CUDA_ERROR_OUT_OF_MEMORY;
    Region* region = place(all, kind, bytes);
    if (region == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
    const bool charged = charge(all, *region);
    if (!charged || !map_pages(*region)) {
        if (charged) uncharge(all, *region);
        all.regions.erase(region->address);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    region->flags = flags;
    region->owner = owner;
    *address = region->address;
    return CUDA_SUCCESS;
}

CUresult reserve(size_t bytes, bool charged, PoolKind pool, CUmemoryPool taken_from, uint64_t* address) {
    Tables& all = tables();
    const TableLock hold(all.lock);
    if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
    if (bytes > all.end - all.base) return CUDA_ERROR_OUT_OF_MEMORY;
    Region* region = place(all, RegionKind::pool, bytes);
    if (region == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
    region->state = RegionState::reserved;
    region->of_graph = !charged;
    region->pool = pool;
    region->taken_from = taken_from;
    if (charged && !charge(all, *region)) {
        all.regions.erase(region->address);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *address = region->address;
    return CUDA_SUCCESS;
}

CUresult commit(uint64_t address) {
    Tables& all = tables();
    const TableLock hold(all.lock);
    Region* region = region_at(address);
    // A free on another stream, with no order between the two, may have come first: there is nothing
    // to do then. The recorded driver takes such pairs without an error.
    const bool freed = region == nullptr || region->address != address ||
                       (!region->of_graph && region->state == RegionState::dead);
    if (freed) return CUDA_SUCCESS;
    // A stream-ordered free may be queued already: the memory still appears, for the work between.
    const bool waiting =
        region->state == RegionState::reserved || region->state == RegionState::closing;
    if (!waiting) return CUDA_ERROR_INVALID_VALUE;
    if (region->of_graph && !charge(all, *region)) return CUDA_ERROR_OUT_OF_MEMORY;
    if (!map_pages(*region)) {
        if (region->of_graph) uncharge(all, *region);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (region->state == RegionState::reserved) region->state = RegionState::live;
    return CUDA_SUCCESS;
}

CUresult release(uint64_t address) {
    Tables& all = tables();
    const TableLock hold(all.lock);
    Region* region = region_at(address);
    if (region == nullptr || region->address != address || region->pages == 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (region->state == RegionState::dead) return CUDA_ERROR_INVALID_VALUE;
    if (region->of_graph && region->state == RegionState::reserved) return CUDA_ERROR_INVALID_VALUE;
    unmap_pages(*region);
    uncharge(all, *region);
    if (region->of_graph) region->state = RegionState::reserved;
    else bury(all, *region);
    return CUDA_SUCCESS;
}

void abandon(uint64_t address) {
    Tables& all = tables();
    const TableLock hold(all.lock);
    Region* region = region_at(address);
    if (region == nullptr || region->address != address || !region->of_graph) return;
    if (is_mapped(*region)) {
        unmap_pages(*region);
        uncharge(all, *region);
    }
    if (region->state != RegionState::dead) bury(all, *region);
}

bool begin_free(uint64_t address) {
    const TableLock hold(tables().lock);
    Region* region = region_at(address);
    if (region == nullptr || region->address != address || region->kind != RegionKind::pool)
        return false;
    const bool open = region->state == RegionState::live ||
                      (region->state == RegionState::reserved && !region->of_graph);
    if (open) region->state = RegionState::closing;
    return open;
}

void destroy_memory(const Context& owner) {
    Tables& all = tables();
    const TableLock hold(all.lock);
    std::vector<uint64_t> gone;
    for (const auto& [address, region] : all.regions)
        if (region.owner == &owner && region.state != RegionState::dead) gone.push_back(address);
    for (const uint64_t address : gone) {
        Region& region = all.regions[address];
        if (region.kind == RegionKind::registered) {
            all.regions.erase(address);
            continue;
        }
        unmap_pages(region);
        uncharge(all, region);
        bury(all, region);
    }
}

void destroy_all_memory() {
    Tables& all = tables();
    const TableLock hold(all.lock);
    for (auto spot = all.regions.begin(); spot != all.regions.end();) {
        Region& region = spot->second;
        if (is_mapped(region)) unmap_pages(region);
        const bool ours = region.pages != 0;
        const bool was_dead = region.state == RegionState::dead;
        region.state = RegionState::dead;
        if (ours && !was_dead) all.dead.push_back(region.address);
        spot = ours ? std::next(spot) : all.regions.erase(spot);
    }
    all.slices.clear();
    all.used = all.pool_used = all.pool_peak = all.graph_used = all.graph_peak = 0;
}

}  // namespace lowgraph
