// CUDA's own bfloat16 header, and after it what that one has for the GPU alone.
#pragma once
#include <cuda_fp16.h>
#include_next <cuda_bf16.h>

template <>
struct LowgraphNarrow<__nv_bfloat16> {
    using pair = __nv_bfloat162;
    static __nv_bfloat16 of(double x) { return __float2bfloat16_rn(lowgraph_to_odd(x)); }
};
template <>
struct LowgraphNarrowPair<__nv_bfloat162> {
    using element = __nv_bfloat16;
};
LOWGRAPH_NARROW_TO_ALL(bfloat16, __nv_bfloat16)

// From integers, other roundings than to nearest even; the value is exact in a long double.
template <LowgraphRounding mode>
static inline __nv_bfloat16 lowgraph_bfloat16_directed(long double exact) {
    const float narrow = lowgraph_narrowed<float>(exact, lowgraph_rz);
    const unsigned bits = lowgraph_bits<unsigned>(narrow);
    const bool inexact = (bits & 0xffffu) != 0 || (long double)narrow != exact;
    const bool outwards = mode == (exact > 0 ? lowgraph_ru : lowgraph_rd);
    __nv_bfloat16_raw raw;
    raw.x = (unsigned short)((bits >> 16) + (inexact && outwards));
    return raw;
}
#define LOWGRAPH_BFLOAT16_FROM(From, from)                                        \
    static inline __nv_bfloat16 __##from##2bfloat16_rz(From x) {                  \
        return lowgraph_bfloat16_directed<lowgraph_rz>(x);                        \
    }                                                                             \
    static inline __nv_bfloat16 __##from##2bfloat16_ru(From x) {                  \
        return lowgraph_bfloat16_directed<lowgraph_ru>(x);                        \
    }                                                                             \
    static inline __nv_bfloat16 __##from##2bfloat16_rd(From x) {                  \
        return lowgraph_bfloat16_directed<lowgraph_rd>(x);                        \
    }
LOWGRAPH_BFLOAT16_FROM(int, int)
LOWGRAPH_BFLOAT16_FROM(unsigned, uint)
LOWGRAPH_BFLOAT16_FROM(short, short)
LOWGRAPH_BFLOAT16_FROM(unsigned short, ushort)
LOWGRAPH_BFLOAT16_FROM(long long, ll)
LOWGRAPH_BFLOAT16_FROM(unsigned long long, ull)
#undef LOWGRAPH_BFLOAT16_FROM
