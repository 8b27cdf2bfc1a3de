// Conversions between numbers, by CUDA's names: source, destination, rounding. Out of range they
// saturate, as on a GPU and unlike a C cast here, which gives the smallest integer for all of them.
#pragma once

// ---- floating point to integer ----
// A NaN is 0 as a 32-bit integer from float; else it is the largest power of two that the type has.
template <class To, class From>
static inline To lowgraph_saturated(From whole) {
    using Limits = std::make_unsigned_t<To>;
    const To lowest = std::is_signed_v<To> ? (To)((Limits)1 << (8 * sizeof(To) - 1)) : (To)0;
    const To highest = (To)~lowest;
    if (whole != whole) {
        const bool zero = sizeof(From) == 4 && sizeof(To) <= 4;
        return zero ? (To)0 : (To)((Limits)1 << (8 * sizeof(To) - 1));
    }
    if (whole <= (From)lowest) return lowest;
    return whole >= (From)highest ? highest : (To)whole;
}
#define LOWGRAPH_TO_INTEGER(From, from, To, to)                                               \
    static inline To __##from##2##to##_rn(From x) { return lowgraph_saturated<To>(rint(x)); }  \
    static inline To __##from##2##to##_rz(From x) { return lowgraph_saturated<To>(trunc(x)); } \
    static inline To __##from##2##to##_ru(From x) { return lowgraph_saturated<To>(ceil(x)); }  \
    static inline To __##from##2##to##_rd(From x) { return lowgraph_saturated<To>(floor(x)); }
LOWGRAPH_TO_INTEGER(float, float, int, int)
LOWGRAPH_TO_INTEGER(float, float, unsigned, uint)
LOWGRAPH_TO_INTEGER(float, float, long long, ll)
LOWGRAPH_TO_INTEGER(float, float, unsigned long long, ull)
LOWGRAPH_TO_INTEGER(double, double, int, int)
LOWGRAPH_TO_INTEGER(double, double, unsigned, uint)
LOWGRAPH_TO_INTEGER(double, double, long long, ll)
LOWGRAPH_TO_INTEGER(double, double, unsigned long long, ull)
#undef LOWGRAPH_TO_INTEGER

// ---- to a floating point type that may not hold the value ----
// `exact` holds every 64-bit integer and every double: 64 bits of significand on x86-64.
template <class To>
static inline To lowgraph_narrowed(long double exact, LowgraphRounding mode) {
    const To nearest = (To)exact;
    const long double error = (long double)nearest - exact;
    const bool down = mode == lowgraph_rd || (mode == lowgraph_rz && exact > 0);
    const To infinity = (To)__builtin_inf();
    if (down && error > 0) return std::nextafter(nearest, -infinity);
    const bool up = mode == lowgraph_ru || (mode == lowgraph_rz && exact < 0);
    return up && error < 0 ? std::nextafter(nearest, infinity) : nearest;
}
#define LOWGRAPH_NARROWING(From, from, To, to)                                    \
    static inline To __##from##2##to##_rn(From x) { return (To)x; }               \
    static inline To __##from##2##to##_rz(From x) {                               \
        return lowgraph_narrowed<To>((long double)x, lowgraph_rz);                \
    }                                                                             \
    static inline To __##from##2##to##_ru(From x) {                               \
        return lowgraph_narrowed<To>((long double)x, lowgraph_ru);                \
    }                                                                             \
    static inline To __##from##2##to##_rd(From x) {                               \
        return lowgraph_narrowed<To>((long double)x, lowgraph_rd);                \
    }
LOWGRAPH_NARROWING(int, int, float, float)
LOWGRAPH_NARROWING(unsigned, uint, float, float)
LOWGRAPH_NARROWING(long long, ll, float, float)
LOWGRAPH_NARROWING(unsigned long long, ull, float, float)
LOWGRAPH_NARROWING(long long, ll, double, double)
LOWGRAPH_NARROWING(unsigned long long, ull, double, double)
LOWGRAPH_NARROWING(double, double, float, float)
#undef LOWGRAPH_NARROWING
static inline double __int2double_rn(int x) { return x; }
static inline double __uint2double_rn(unsigned x) { return x; }

// ---- the two words of a double ----
static inline int __double2hiint(double x) {
    return (int)(lowgraph_bits<unsigned long long>(x) >> 32);
}
static inline int __double2loint(double x) { return (int)lowgraph_bits<unsigned long long>(x); }
static inline double __hiloint2double(int high, int low) {
    return lowgraph_bits<double>((unsigned long long)(unsigned)high << 32 | (unsigned)low);
}
