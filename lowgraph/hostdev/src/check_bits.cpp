#include "check_bits.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>

#include "check.h"
#include "memory_tables.h"

namespace lowgraph {
namespace {

WrittenBits device;
std::atomic<bool> stopped{false};

bool tracked(uint64_t address, uint64_t bytes) {
    return checking() && device.bits != nullptr && bytes != 0 && in_device_memory(address) &&
           in_device_memory(address + bytes - 1);
}

}  // namespace

void WrittenBits::fill(uint64_t address, uint64_t bytes, bool written) const {
    uint64_t at = address - start, end = at + bytes;
    const auto one = [&](uint64_t bit) {
        const auto mask = static_cast<uint8_t>(1u << bit % 8);
        uint8_t& byte = bits[bit / 8];
        byte = static_cast<uint8_t>(written ? byte | mask : byte & ~mask);
    };
    while (at < end && at % 8 != 0) one(at++);
    const uint64_t whole = (end - at) / 8;
    std::memset(bits + at / 8, written ? 0xFF : 0, whole);
    for (at += whole * 8; at < end; ++at) one(at);
}

void start_device_bits() {
    const Tables& all = tables();
    const size_t bytes = (all.end - all.base) / 8 + 4096;
    void* bits = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (bits != MAP_FAILED) device = {static_cast<uint8_t*>(bits), all.base};
}

void stop_device_bits() { stopped.store(true, std::memory_order_relaxed); }

WrittenBits device_bits() {
    return stopped.load(std::memory_order_relaxed) ? WrittenBits{} : device;
}

void mark_written(uint64_t address, uint64_t bytes) {
    if (tracked(address, bytes)) device.fill(address, bytes, true);
}

void mark_unwritten(uint64_t address, uint64_t bytes) {
    if (tracked(address, bytes)) device.fill(address, bytes, false);
}

// Bit by bit where the two do not start at the same place in a byte; from outside: written.
void copy_written(uint64_t to, uint64_t from, uint64_t bytes) {
    if (!tracked(to, bytes)) return;
    if (!tracked(from, bytes)) return mark_written(to, bytes);
    if ((to - from) % 8 != 0 || to % 8 != 0) {
        const bool backwards = to > from;  // they may overlap, as in memmove
        for (uint64_t i = 0; i < bytes; ++i) {
            const uint64_t at = backwards ? bytes - 1 - i : i;
            device.fill(to + at, 1, device.get(from + at));
        }
        return;
    }
    const uint64_t whole = bytes / 8;
    std::memmove(device.bits + (to - device.start) / 8, device.bits + (from - device.start) / 8,
                 whole);
    for (uint64_t at = whole * 8; at < bytes; ++at)
        device.fill(to + at, 1, device.get(from + at));
}

}  // namespace lowgraph
