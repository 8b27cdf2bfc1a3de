#include "check_places.h"

#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <set>

#include "block.h"
#include "check_heap.h"
#include "check_shared.h"
#include "images.h"
#include "memory_tables.h"

namespace lowgraph {
namespace {

constexpr size_t most_opened = 4096;  // pages; a kernel that runs wild ends its block then

// Pages made accessible for accesses that went wrong; under the device's lock.
std::set<uint64_t>& opened() {
    static auto* const pages = new std::set<uint64_t>;
    return *pages;
}

bool is_readable(uint64_t address, uint32_t bytes) {
    char taken[64];
    const size_t count = bytes < sizeof taken ? bytes : sizeof taken;
    const iovec here{taken, count}, there{reinterpret_cast<void*>(address), count};
    return process_vm_readv(getpid(), &here, 1, &there, 1, 0) == static_cast<ssize_t>(count);
}

// Under the tables' lock.
bool open_pages(uint64_t from, uint64_t to) {
    for (uint64_t page = round_down(from, page_bytes); page < to; page += page_bytes) {
        if (!in_device_memory(page) || opened().size() >= most_opened) return false;
        if (is_readable(page, 1)) continue;
        if (mprotect(reinterpret_cast<void*>(page), page_bytes, PROT_READ | PROT_WRITE) != 0)
            return false;
        opened().insert(page);
    }
    return true;
}

// Under the tables' lock.
std::string title_of(const Region& region) {
    const auto& slices = tables().slices;
    const auto slice = slices.find(region.address);
    if (slice != slices.end()) return slice->second.name;
    if (!region.name.empty()) return region.name;
    return "allocation of " + std::to_string(region.bytes) + " bytes";
}

const Slice* slice_at(uint64_t address) {
    const auto& slices = tables().slices;
    const auto spot = slices.upper_bound(address);
    if (spot == slices.begin()) return nullptr;
    const Slice& slice = std::prev(spot)->second;
    return address < slice.end ? &slice : nullptr;
}

void set_wrong(const Access& access, const char* kind, uint64_t address, uint64_t owner,
               Wrong* wrong) {
    wrong->kind = kind;
    wrong->text = describe(address);
    wrong->owner = owner;
    wrong->fatal = !open_pages(access.address, access.address + access.bytes);
}

// The stretch that the address is in: a slice, or an allocation of which no part is named there.
bool device_place(const Access& access, Place* place, Wrong* wrong) {
    Tables& all = tables();
    const TableLock hold(all.lock);
    const uint64_t address = access.address, stop = address + access.bytes;
    const Region* region = region_at(address);
    if (region == nullptr) {
        set_wrong(access, kind::out_of_bounds, address, address, wrong);
        return false;
    }
    if (region->state == RegionState::dead || region->state == RegionState::reserved) {
        set_wrong(access, kind::use_after_free, address, address, wrong);
        return false;
    }
    const Slice* slice = region->kind == RegionKind::host ? nullptr : slice_at(address);
    if (slice != nullptr && !slice->live) {
        set_wrong(access, kind::use_after_free, address, slice->address, wrong);
        return false;
    }
    place->start = slice != nullptr ? slice->address : region->address;
    place->end = place->start + (slice != nullptr ? slice->bytes : region->bytes);
    if (slice == nullptr) {
        const auto next = all.slices.lower_bound(address);
        if (next != all.slices.end() && next->first < place->end) place->end = next->first;
        if (next != all.slices.begin() && std::prev(next)->second.end > place->start)
            place->start = std::prev(next)->second.end;
    }
    if (stop > place->end) {
        // An unnamed part goes over into the slice behind it only if that may be used too.
        const uint64_t bad = address < place->end ? place->end : address;
        set_wrong(access, kind::out_of_bounds, bad, place->start, wrong);
        return false;
    }
    if (region->kind != RegionKind::host) place->written = device_bits();
    place->watched = true;
    return true;
}

bool registered_place(const Access& access, Place* place) {
    const TableLock hold(tables().lock);
    const Region* region = live_region(access.address, access.bytes);
    if (region == nullptr || region->kind != RegionKind::registered) return false;
    *place = {region->address, region->address + region->bytes, {}, true, Space::global};
    return true;
}

// The variables of the image itself: __device__, __constant__, and constants of the code.
bool image_place(const Access& access, const Image& image, Place* place, Wrong* wrong) {
    const uint64_t address = access.address, stop = address + access.bytes;
    const Variable* before = nullptr;
    for (const Variable& variable : image.data) {
        if (variable.value > address) break;
        before = &variable;
    }
    const bool behind = before != nullptr && address >= before->value + before->bytes;
    const bool across = before != nullptr && !behind && stop > before->value + before->bytes;
    // Constants that the compiler made have no symbol: only the red zone behind one is refused.
    const bool in_zone = behind && address < before->value + before->bytes + red_zone;
    if (across || (in_zone && address >= image.data.front().value)) {
        const uint64_t past = behind ? address - before->value - before->bytes : 0;
        *wrong = {kind::out_of_bounds, past_text(past, "variable", *before), 0, before->name(),
                  false};
        return false;
    }
    if (before == nullptr || behind) *place = {address, stop, {}, true, Space::global};
    else *place = {before->value, before->value + before->bytes, {}, true, Space::global};
    return true;
}

// The engine's own: stacks, the state of the running thread, what its last warp operation gave.
bool private_place(const Access& access, Place* place) {
    const Block& block = *lowgraph_thread.runner;
    const auto within = [&](const void* start, size_t bytes) {
        const auto from = reinterpret_cast<uint64_t>(start);
        if (access.address < from || access.address + access.bytes > from + bytes) return false;
        *place = {from, from + bytes, {}, false, Space::global};
        return true;
    };
    if (within(&lowgraph_thread, sizeof lowgraph_thread) || within(&block, sizeof block))
        return true;
    uint64_t start = 0, end = 0;
    block.stacks.span(&start, &end);
    return within(reinterpret_cast<void*>(start), end - start);
}

}  // namespace

bool find_place(const Access& access, Place* place, Wrong* wrong) {
    if (private_place(access, place)) return true;
    if (in_device_memory(access.address)) return device_place(access, place, wrong);
    if (is_in_heap(access.address)) return heap_place(access, place, wrong);
    if (is_shared(access.address)) return shared_place(access, place, wrong);
    if (const Image* image = image_of(access.address))
        return image_place(access, *image, place, wrong);
    if (registered_place(access, place)) return true;
    const bool is_there = is_readable(access.address, access.bytes);
    const char* text = "at 0x%llx, where no memory is: no pointer at all, or one far out of bounds";
    if (access.address < page_bytes) text = "at a null pointer (address 0x%llx)";
    else if (is_there) text = "at 0x%llx, which is host memory: no device pointer";
    char where[120];
    snprintf(where, sizeof where, text, static_cast<unsigned long long>(access.address));
    *wrong = {is_there ? kind::host_pointer : kind::out_of_bounds, where, 0, "", true};
    wrong->fatal = access.write || !is_there;
    return false;
}

// The name that people gave to it, or its size.
std::string allocation_name(uint64_t address) {
    if (address == 0) return "";
    const TableLock hold(tables().lock);
    const auto& slices = tables().slices;
    const auto& regions = tables().regions;
    const auto slice = slices.upper_bound(address);
    const auto next = regions.upper_bound(address);
    const Region* before = next == regions.begin() ? nullptr : &std::prev(next)->second;
    const uint64_t past = before != nullptr ? address - before->address : UINT64_MAX;
    const bool near = before != nullptr && past < before->bytes + alignment + page_bytes;
    if (near && slice != slices.begin()) {
        const Slice& found = std::prev(slice)->second;
        const bool last = found.end + alignment > before->address + before->bytes;
        const bool inside = found.address >= before->address;
        if (inside && (address < found.end || (past >= before->bytes && last))) return found.name;
    }
    if (near) return title_of(*before);
    const bool ahead = next != regions.end() && next->first - address <= page_bytes;
    return ahead ? title_of(next->second) : "";
}

std::string memory_name(uint64_t address) {
    if (in_device_memory(address)) return allocation_name(address);
    if (is_in_heap(address)) return heap_name;
    const Image* image = image_of(address);
    if (image == nullptr) return allocation_name(address);
    std::string name;
    for (const Variable& variable : image->data) {
        if (variable.value > address) break;
        name = address < variable.value + variable.bytes + red_zone ? variable.name() : "";
    }
    return name;
}

std::string touched_name(uint64_t address) {
    if (in_device_memory(address) || is_in_heap(address) || !is_shared(address))
        return memory_name(address);
    Place place;
    Wrong wrong;
    const Access access{address, 1, false, false, 0, 0};
    return shared_place(access, &place, &wrong) ? shared_title(place) : wrong.name;
}

void close_opened_pages() {
    const TableLock hold(tables().lock);
    for (const uint64_t page : opened()) {
        const Region* region = live_region(page, 1);
        void* const start = reinterpret_cast<void*>(page);
        if (region != nullptr && is_mapped(*region)) {
            const Slice* slice = slice_at(page);
            const bool closed = slice != nullptr && !slice->live && page >= slice->address &&
                                page + page_bytes <= slice->end;
            if (closed) mprotect(start, page_bytes, PROT_NONE);
        } else {
            mmap(start, page_bytes, PROT_NONE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
        }
    }
    opened().clear();
}

}  // namespace lowgraph
