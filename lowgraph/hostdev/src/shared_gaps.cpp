#include "shared_gaps.h"

#include <cstring>

namespace lowgraph {
namespace {

constexpr unsigned char gap_fill = 0xA5;

// What an untouched gap holds. The C library compares as wide as the processor can: a loop of ours,
// which is compiled for any processor, took 0.08 us more for each block.
struct Untouched {
    unsigned char bytes[largest_gap];
    Untouched() { std::memset(bytes, gap_fill, sizeof bytes); }
};
const Untouched untouched;

bool is_whole(const unsigned char* gap, uint32_t bytes) {
    return std::memcmp(gap, untouched.bytes, bytes) == 0;
}

}  // namespace

void fill_gaps(const std::vector<SharedGap>& gaps, unsigned char* tail) {
    for (const SharedGap& gap : gaps) std::memset(tail + gap.offset, gap_fill, gap.bytes);
}

void begin_gaps(const std::vector<SharedGap>& gaps, unsigned char* tail) {
    for (const SharedGap& gap : gaps)
        if (tail[gap.offset] != gap_fill) std::memset(tail + gap.offset, gap_fill, gap.bytes);
}

const SharedGap* broken_gap(const std::vector<SharedGap>& gaps, const unsigned char* tail) {
    for (const SharedGap& gap : gaps)
        if (!is_whole(tail + gap.offset, gap.bytes)) return &gap;
    return nullptr;
}

std::string damage_text(const SharedGap& gap, const unsigned char* tail) {
    const unsigned char* const start = tail + gap.offset;
    uint32_t first = 0, last = gap.bytes - 1;
    while (start[first] == gap_fill) ++first;
    while (start[last] == gap_fill) --last;
    const uint32_t ahead = gap.bytes - last;  // from the last byte written to the next variable
    const bool past = gap.before.empty() || (!gap.behind.empty() && first < ahead);
    const uint32_t between = past ? first : ahead - 1;
    const std::string count = between == 0 ? "just" : std::to_string(between) + " bytes";
    return past ? count + " past the end of __shared__ '" + gap.behind + "'"
                : count + " before __shared__ '" + gap.before + "'";
}

}  // namespace lowgraph
