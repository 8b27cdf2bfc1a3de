// Warp operations made of those in sync.h: matches of all lanes, bitwise reductions.
#pragma once

// The lanes of the mask when all have the caller's value, and then *all_equal is 1; else 0 and 0.
template <class T>
LOWGRAPH_INLINE uint32_t __match_all_sync(uint32_t mask, T value, int* all_equal, LOWGRAPH_HERE) {
    const uint32_t same = __match_any_sync(mask, value, file, line);
    *all_equal = same == lowgraph_members();
    return *all_equal ? same : 0;
}
LOWGRAPH_INLINE uint32_t __reduce_and_sync(uint32_t mask, uint32_t value, LOWGRAPH_HERE) {
    return lowgraph_reduce(mask, value, [](uint32_t a, uint32_t b) { return a & b; }, file, line);
}
LOWGRAPH_INLINE uint32_t __reduce_or_sync(uint32_t mask, uint32_t value, LOWGRAPH_HERE) {
    return lowgraph_reduce(mask, value, [](uint32_t a, uint32_t b) { return a | b; }, file, line);
}
LOWGRAPH_INLINE uint32_t __reduce_xor_sync(uint32_t mask, uint32_t value, LOWGRAPH_HERE) {
    return lowgraph_reduce(mask, value, [](uint32_t a, uint32_t b) { return a ^ b; }, file, line);
}
