// One bit for each byte of a stretch of memory: whether anybody has written it.
#pragma once
#include <cstdint>
#include <cstring>

namespace lowgraph {

// A view; `bits` must have 8 bytes more than the stretch needs.
struct WrittenBits {
    uint8_t* bits = nullptr;  // null: not tracked, all counts as written
    uint64_t start = 0;       // the address of the first bit

    // Of at most 16 bytes. The bits of bytes that nobody wrote, the first byte's lowest.
    uint32_t unwritten(uint64_t address, uint32_t bytes) const {
        const uint64_t at = address - start;
        uint32_t word;
        std::memcpy(&word, bits + at / 8, sizeof word);
        return ~(word >> at % 8) & ((1u << bytes) - 1);
    }
    void set(uint64_t address, uint32_t bytes) const {
        const uint64_t at = address - start;
        uint32_t word;
        std::memcpy(&word, bits + at / 8, sizeof word);
        word |= ((1u << bytes) - 1) << at % 8;
        std::memcpy(bits + at / 8, &word, sizeof word);
    }
    void fill(uint64_t address, uint64_t bytes, bool written) const;
    void set_all(uint64_t address, uint32_t bytes) const {
        if (bytes <= 16) set(address, bytes);
        else fill(address, bytes, true);
    }
    bool get(uint64_t address) const {
        const uint64_t at = address - start;
        return bits[at / 8] >> at % 8 & 1;
    }
};

// ---- device memory; nothing happens unless checking() and the range is in the reservation ----
void start_device_bits();
void stop_device_bits();  // all counts as written from now on
WrittenBits device_bits();
void mark_written(uint64_t address, uint64_t bytes);
void mark_unwritten(uint64_t address, uint64_t bytes);
void copy_written(uint64_t to, uint64_t from, uint64_t bytes);

}  // namespace lowgraph
