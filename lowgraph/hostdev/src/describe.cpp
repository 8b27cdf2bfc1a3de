// Names an address for people: which slice or allocation it is in, before or behind.
#include <cstdio>
#include <thread>

#include "engine.h"
#include "memory_tables.h"

namespace lowgraph {
namespace {

std::string hex(uint64_t value) {
    char text[24];
    std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
    return text;
}

std::string count_bytes(uint64_t count) {
    return std::to_string(count) + (count == 1 ? " byte" : " bytes");
}

// A part of memory as a sentence names it: "slice 'x' (1000 bytes at 0x...)".
struct Place {
    uint64_t address = 0;
    size_t bytes = 0;
    std::string title;
    std::string ending;  // ", which was freed"

    std::string text() const {
        return title + " (" + count_bytes(bytes) + " at " + hex(address) + ")" + ending;
    }
};

const char* kind_title(const Region& region) {
    switch (region.kind) {
        case RegionKind::device: return "the allocation";
        case RegionKind::managed: return "the managed allocation";
        case RegionKind::mapped: return "the mapped memory";
        case RegionKind::pool: return "the stream-ordered allocation";
        case RegionKind::host: return "the pinned host allocation";
        case RegionKind::registered: return "the registered host memory";
        case RegionKind::global: return "the global";
    }
    return "the memory";
}

Place place_of(const Region& region) {
    Place place{region.address, region.bytes, kind_title(region), ""};
    if (!region.name.empty()) place.title += " '" + region.name + "'";
    if (region.state == RegionState::dead) place.ending = ", which was freed";
    if (region.state == RegionState::reserved)
        place.ending = ", which is not allocated at this point";
    return place;
}

Place place_of(const Slice& slice) {
    return {slice.address, slice.bytes, "slice '" + slice.name + "'",
            slice.live ? "" : ", which was freed"};
}

const Slice* slice_before(uint64_t address) {
    const auto& slices = tables().slices;
    const auto spot = slices.upper_bound(address);
    return spot == slices.begin() ? nullptr : &std::prev(spot)->second;
}

std::string from_place(const Place& place, uint64_t address) {
    const uint64_t offset = address - place.address;
    if (offset < place.bytes) return count_bytes(offset) + " into " + place.text();
    const uint64_t past = offset - place.bytes;
    return (past == 0 ? "just" : count_bytes(past)) + " past the end of " + place.text();
}

// The nearest memory that starts at or before the address; a slice wins over the allocation it is
// in when the address is in it or in the slack and guard page behind both.
std::string behind(uint64_t address, const Region& region) {
    const uint64_t stop = region.address + region.bytes;
    const Slice* slice = slice_before(address);
    if (slice != nullptr && slice->address >= region.address) {
        const uint64_t slice_stop = slice->address + slice->bytes;
        const bool last = slice_stop + alignment > stop;
        if (address < slice->end || (address >= stop && last))
            return from_place(place_of(*slice), address);
    }
    return from_place(place_of(region), address);
}

}  // namespace

std::string describe(uint64_t address) {
    Tables& all = tables();
    if (address < page_bytes) return "a null pointer (address " + hex(address) + ")";
    auto next = all.regions.upper_bound(address);
    const Region* before = next == all.regions.begin() ? nullptr : &std::prev(next)->second;
    const uint64_t past = before == nullptr ? UINT64_MAX : address - before->address;
    if (before != nullptr && past < before->bytes) return behind(address, *before);
    if (address < all.base || address >= all.end)
        return "host memory that the device does not know (address " + hex(address) + ")";
    if (next != all.regions.end() && next->first < all.end) {
        const uint64_t missing = next->first - address;
        const auto slice = all.slices.find(next->first);
        const Place place =
            slice != all.slices.end() ? place_of(slice->second) : place_of(next->second);
        if (missing <= page_bytes && (before == nullptr || missing < past - before->bytes))
            return count_bytes(missing) + " before " + place.text();
    }
    if (before != nullptr && before->address >= all.base) return behind(address, *before);
    return "device memory that was never allocated (address " + hex(address) + ")";
}

void describe_address(uint64_t address, char* out, size_t n) {
    Tables& all = tables();
    // A thread killed in an entry point could have left the lock taken: say less rather than hang.
    bool held = false;
    for (int tries = 0; tries < 1000 && !held; ++tries) {
        held = all.lock.try_lock();
        if (!held) std::this_thread::yield();
    }
    std::string text = held ? describe(address) : "address " + hex(address);
    if (held) all.lock.unlock();
    std::snprintf(out, n, "%s", text.c_str());
}

}  // namespace lowgraph
