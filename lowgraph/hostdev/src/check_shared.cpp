#include "check_shared.h"

#include <algorithm>

#include "block.h"
#include "memory_tables.h"

namespace lowgraph {
namespace {

// How far behind the block's thread-local memory an address still counts as an overflow of it.
constexpr uint64_t static_reach = 4096;

// Of the block that runs now: one launch runs at a time, on one OS thread.
struct Shared {
    const Image* image = nullptr;
    uint64_t start = 0;  // of the image's thread-local block
    std::vector<uint8_t> static_bits, dynamic_bits;
};

Shared& shared() {
    static auto* const instance = new Shared;
    return *instance;
}

uint64_t dynamic_start() { return reinterpret_cast<uint64_t>(lowgraph_thread.dynamic_shared); }

bool is_dynamic(uint64_t address) { return lowgraph_thread.runner->shared.is_near(address); }

bool is_registered(uint64_t address) {
    const TableLock hold(tables().lock);
    const Region* region = live_region(address, 1);
    return region != nullptr && region->kind == RegionKind::registered;
}

// The caller's memory may lie in the heap beside the thread-local block.
bool is_static(uint64_t address) {
    const Shared& all = shared();
    if (all.image == nullptr) return false;
    if (address - all.start < all.image->shared_bytes) return true;
    const uint64_t stop = all.start + all.image->shared_bytes + static_reach;
    return address + red_zone >= all.start && address < stop && !is_registered(address);
}

std::string count_bytes(uint64_t count) {
    return std::to_string(count) + (count == 1 ? " byte" : " bytes");
}

WrittenBits view(std::vector<uint8_t>& bits, uint64_t start) { return {bits.data(), start}; }

bool dynamic_place(const Access& access, Place* place, Wrong* wrong) {
    const uint64_t start = dynamic_start(), bytes = lowgraph_thread.dynamic_shared_bytes;
    const uint64_t stop = access.address + access.bytes;
    if (access.address >= start && stop <= start + bytes) {
        *place = {start, start + bytes, view(shared().dynamic_bits, start), true, Space::shared};
        return true;
    }
    const std::string whole = "the " + count_bytes(bytes) + " of dynamic shared memory";
    const uint64_t past = std::max(access.address, start + bytes) - start - bytes;
    wrong->kind = kind::out_of_bounds;
    wrong->text = access.address < start
                      ? count_bytes(start - access.address) + " before " + whole
                      : (past == 0 ? "just" : count_bytes(past)) + " past the end of " + whole;
    wrong->name = "dynamic shared memory";
    // Its end is that of a page, but for rounding to 16; a guard page follows.
    const uint64_t buffer_end = start + (bytes + 15) / 16 * 16;
    wrong->fatal = stop > buffer_end || !lowgraph_thread.runner->shared.holds(access.address);
    return false;
}

bool static_place(const Access& access, Place* place, Wrong* wrong) {
    Shared& all = shared();
    const char* kernel = lowgraph_thread.runner->job->launch->kernel->name;
    const uint64_t address = access.address, stop = address + access.bytes;
    const Variable* before = nullptr;
    for (const Variable& variable : all.image->shared) {
        if (variable.is_foreign(kernel)) continue;
        const uint64_t from = all.start + variable.value, to = from + variable.bytes;
        if (address >= from && stop <= to) {
            // Whether a variable's constructor has run: g++ notes it for each array of a type with
            // one, though it be empty (`__shared__ __half2 s[32]`).
            const bool note = variable.symbol.rfind("_ZGV", 0) == 0;
            const WrittenBits bits = note ? WrittenBits{} : view(all.static_bits, all.start);
            *place = {from, to, bits, !note, Space::shared};
            return true;
        }
        if (address >= from || before == nullptr) before = &variable;
    }
    wrong->kind = kind::out_of_bounds;
    wrong->fatal = address < all.start || stop > all.start + all.image->shared_bytes;
    if (before == nullptr) {
        wrong->text = "in shared memory that the kernel does not have";
        wrong->name = "shared memory";
        return false;
    }
    const uint64_t from = all.start + before->value, to = from + before->bytes;
    wrong->name = before->name();
    wrong->text = address < from
                      ? count_bytes(from - address) + " before __shared__ '" + wrong->name + "'"
                      : past_text(address < to ? 0 : address - to, "__shared__", *before);
    return false;
}

}  // namespace

std::string past_text(uint64_t past, const char* what, const Variable& variable) {
    return (past == 0 ? "just" : count_bytes(past)) + " past the end of " + what + " '" +
           variable.name() + "' (" + count_bytes(variable.bytes) + ")";
}

bool is_shared(uint64_t address) { return is_dynamic(address) || is_static(address); }

bool shared_place(const Access& access, Place* place, Wrong* wrong) {
    if (is_dynamic(access.address)) return dynamic_place(access, place, wrong);
    return static_place(access, place, wrong);
}

std::string shared_title(const Place& place) {
    const Shared& all = shared();
    for (const Variable& variable : all.image->shared)
        if (all.start + variable.value == place.start) return variable.name();
    return "dynamic shared memory";
}

void reset_shared_bits() {
    Shared& all = shared();
    const KernelEntry& kernel = *lowgraph_thread.runner->job->launch->kernel;
    all.image = image_of(reinterpret_cast<uint64_t>(kernel.run));
    all.dynamic_bits.assign(lowgraph_thread.dynamic_shared_bytes / 8 + 8, 0);
    if (all.image == nullptr) return;
    all.start = reinterpret_cast<uint64_t>(kernel.touch()) - all.image->probe;
    all.static_bits.assign(all.image->shared_bytes / 8 + 8, 0);
}

}  // namespace lowgraph
