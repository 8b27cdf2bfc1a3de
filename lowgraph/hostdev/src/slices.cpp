// Slices: named parts of an allocation, told by `annotate`. A freed slice is poisoned with 0xFF,
// its whole pages refuse access, and what shares a page with live memory is checked like a canary.
#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "check.h"
#include "check_bits.h"
#include "memory_tables.h"

namespace lowgraph {
namespace {

// NaN as float, half and bfloat16; byte by byte, so that it does not matter where a check starts.
constexpr unsigned char canary_bytes[2] = {0xA5, 0xFF};

unsigned char* bytes_at(uint64_t address) { return reinterpret_cast<unsigned char*>(address); }

// The first place from `at` on, which is a multiple of 8, whose eight bytes are not all `word`'s.
uint64_t past_words(uint64_t at, uint64_t end, uint64_t word) {
    for (uint64_t found = 0; end - at >= sizeof found; at += sizeof found) {
        std::memcpy(&found, bytes_at(at), sizeof found);
        if (found != word) break;
    }
    return at;
}

// The first byte that is not as the guard left it; `end` if all are. By words: each free and each
// wait of the host looks at all guards, up to two pages an allocation.
uint64_t first_damage(const Guard& guard) {
    uint64_t word = 0;
    unsigned char pattern[sizeof word];
    for (size_t i = 0; i < sizeof word; ++i) pattern[i] = guard.poison ? 0xFF : canary_bytes[i & 1];
    std::memcpy(&word, pattern, sizeof word);
    for (uint64_t at = guard.address; at < guard.end; ++at) {
        if (at % sizeof word == 0) at = past_words(at, guard.end, word);
        if (at == guard.end) break;
        if (*bytes_at(at) != pattern[at % sizeof word]) return at;
    }
    return guard.end;
}

void restore(const Guard& guard) {
    if (guard.poison) std::memset(bytes_at(guard.address), 0xFF, guard.end - guard.address);
    else write_canary(guard.address, guard.end);
}

void add_guard(Tables& all, const Guard& guard) {
    if (guard.address < guard.end) all.guards.push_back(guard);
}

void add_slice_guards(Tables& all, const Slice& slice) {
    const uint64_t stop = slice.address + slice.bytes;
    if (slice.live) {
        add_guard(all, {stop, slice.end, false, false, slice.address});
        return;
    }
    const uint64_t closed = round_up(slice.address, page_bytes);
    const uint64_t open = std::max(closed, round_down(slice.end, page_bytes));
    add_guard(all, {slice.address, std::min(closed, slice.end), true, false, slice.address});
    add_guard(all, {open, slice.end, true, false, slice.address});
}

void rebuild_guards(Tables& all) {
    all.guards.clear();
    // Not over all regions: thousands of freed ones are kept, and every allocation comes here.
    for (const uint64_t address : all.open) {
        const Region& region = all.regions.at(address);
        const uint64_t stop = address + region.bytes, end = region.pages + region.mapped;
        add_guard(all, {region.pages, address, false, true, address});
        const auto slice = all.slices.lower_bound(stop);
        const bool covered = slice != all.slices.begin() && std::prev(slice)->second.end > stop;
        if (!covered) add_guard(all, {stop, end, false, false, address});
    }
    for (const auto& [address, slice] : all.slices) add_slice_guards(all, slice);
    all.guards_stale = false;
}

void shorten(Slice& slice, uint64_t end) {
    if (slice.end <= end) return;
    if (!slice.live) protect(slice.address, slice.end, true);
    slice.end = end;
    if (!slice.live) protect(slice.address, slice.end, false);
}

// What a new slice over [from, to) leaves of an old one. The check build must know the state of all
// of a block: the plain one looks at what is guarded only.
void add_rest(const Slice& old, uint64_t from, uint64_t to, std::vector<Slice>* rests) {
    const uint64_t stop = old.address + old.bytes;
    if (old.address < from)
        rests->push_back({old.address, from - old.address, from, old.live, old.name});
    if (to < stop) rests->push_back({to, stop - to, old.end, old.live, old.name});
}

std::string damage_text(const Guard& guard, uint64_t at) {
    if (guard.poison) return "wrote into freed memory: " + describe(at);
    if (guard.head) return "wrote before its memory: " + describe(at);
    return "wrote past the end of its memory: " + describe(at);
}

}  // namespace

void write_canary(uint64_t from, uint64_t to) {
    for (uint64_t at = from; at < to; ++at) *bytes_at(at) = canary_bytes[at & 1];
}

bool protect(uint64_t from, uint64_t to, bool accessible) {
    const uint64_t first = round_up(from, page_bytes), last = round_down(to, page_bytes);
    if (first >= last) return true;
    const int rights = accessible ? PROT_READ | PROT_WRITE : PROT_NONE;
    return mprotect(bytes_at(first), last - first, rights) == 0;
}

void drop_slices(uint64_t from, uint64_t to) {
    Tables& all = tables();
    auto spot = all.slices.lower_bound(from);
    if (spot != all.slices.begin()) {
        Slice& before = std::prev(spot)->second;
        if (before.address + before.bytes > from) --spot;
        else shorten(before, from);  // only its slack was in the way
    }
    std::vector<Slice> left;
    while (spot != all.slices.end() && spot->first < to) {
        if (!spot->second.live) protect(spot->second.address, spot->second.end, true);
        if (checking()) add_rest(spot->second, from, round_up(to, alignment), &left);
        spot = all.slices.erase(spot);
    }
    for (Slice& rest : left) all.slices[rest.address] = std::move(rest);
    all.guards_stale = true;
}

bool annotate(uint64_t address, size_t bytes, int state, const char* name) {
    Tables& all = tables();
    const TableLock hold(all.lock);
    const Region* region = live_region(address, bytes);
    if (bytes == 0 || region == nullptr || !is_mapped(*region)) return false;
    drop_slices(address, address + bytes);
    if (state == slice_gone) return true;
    Slice slice{address, bytes, 0, state == slice_live, name != nullptr ? name : ""};
    const uint64_t stop = address + bytes;
    slice.end = std::min(round_up(stop, alignment), region->pages + region->mapped);
    const auto next = all.slices.lower_bound(stop);
    if (next != all.slices.end()) slice.end = std::min(slice.end, next->first);
    mark_unwritten(address, slice.end - address);
    if (slice.live) {
        write_canary(stop, slice.end);
    } else {
        std::memset(bytes_at(address), 0xFF, slice.end - address);
        protect(address, slice.end,
                false);  // refused (too many mappings): poison and checks remain
    }
    all.slices[address] = std::move(slice);
    return true;
}

bool check_access(uint64_t address, size_t bytes, std::string* text) {
    Tables& all = tables();
    const TableLock hold(all.lock);
    if (bytes == 0) return true;
    const Region* region = live_region(address, bytes);
    if (region == nullptr) {
        const bool foreign =
            address < all.base || address >= all.end;  // pageable memory: the caller's care
        if (!foreign)
            *text = describe(region_at(address) != nullptr ? address + bytes - 1 : address);
        return foreign;
    }
    if (region->pages != 0 && !is_mapped(*region)) {
        *text = describe(address);
        return false;
    }
    auto spot = all.slices.upper_bound(address);
    if (spot != all.slices.begin()) --spot;
    for (; spot != all.slices.end() && spot->first < address + bytes; ++spot) {
        const Slice& slice = spot->second;
        if (slice.live || slice.address + slice.bytes <= address) continue;
        *text = describe(std::max(address, slice.address));
        return false;
    }
    return true;
}

bool check_canaries(bool heads_too, std::string* text) {
    Tables& all = tables();
    const TableLock hold(all.lock);
    if (all.guards_stale) rebuild_guards(all);
    for (const Guard& guard : all.guards) {
        if (guard.head && !heads_too) continue;
        const uint64_t at = first_damage(guard);
        if (at == guard.end) continue;
        *text = damage_text(guard, at);
        restore(guard);
        return false;
    }
    return true;
}

}  // namespace lowgraph
