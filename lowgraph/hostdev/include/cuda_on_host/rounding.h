// Arithmetic and conversions whose rounding is in their name: _rn to nearest even, _rz towards
// zero, _ru upwards, _rd downwards. Exact, as on a GPU. The _rn arithmetic is in intrinsics.h.
#pragma once

// Rounding field of the processor's MXCSR register.
enum LowgraphRounding : unsigned {
    lowgraph_rd = 0x2000,
    lowgraph_ru = 0x4000,
    lowgraph_rz = 0x6000,
};

// Computes under another rounding mode. The compiler knows nothing of modes: what comes in and goes
// out passes through volatile statements, which it keeps in order with the register's writes.
template <class T>
LOWGRAPH_INLINE void lowgraph_pin(T& x) {
    asm volatile("" : "+x"(x));
}
template <class T, class Compute, class... In>
LOWGRAPH_INLINE T lowgraph_directed(LowgraphRounding mode, Compute compute, In... in) {
    const unsigned saved = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr((saved & ~0x6000u) | mode);
    (lowgraph_pin(in), ...);
    T out = compute(in...);
    lowgraph_pin(out);
    __builtin_ia32_ldmxcsr(saved);
    return out;
}
static inline float lowgraph_root(float x) { return __builtin_sqrtf(x); }
static inline double lowgraph_root(double x) { return __builtin_sqrt(x); }
static inline float lowgraph_fused(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
static inline double lowgraph_fused(double x, double y, double z) {
    return __builtin_fma(x, y, z);
}

#define LOWGRAPH_DIRECTED(T, prefix, fused, mode)                                            \
    static inline T prefix##add_##mode(T a, T b) {                                           \
        return lowgraph_directed<T>(lowgraph_##mode, [](T x, T y) { return x + y; }, a, b);  \
    }                                                                                        \
    static inline T prefix##sub_##mode(T a, T b) {                                           \
        return lowgraph_directed<T>(lowgraph_##mode, [](T x, T y) { return x - y; }, a, b);  \
    }                                                                                        \
    static inline T prefix##mul_##mode(T a, T b) {                                           \
        return lowgraph_directed<T>(lowgraph_##mode, [](T x, T y) { return x * y; }, a, b);  \
    }                                                                                        \
    static inline T prefix##div_##mode(T a, T b) {                                           \
        return lowgraph_directed<T>(lowgraph_##mode, [](T x, T y) { return x / y; }, a, b);  \
    }                                                                                        \
    static inline T prefix##rcp_##mode(T a) { return prefix##div_##mode((T)1, a); }          \
    static inline T prefix##sqrt_##mode(T a) {                                               \
        return lowgraph_directed<T>(lowgraph_##mode, [](T x) { return lowgraph_root(x); }, a); \
    }                                                                                        \
    static inline T fused##_##mode(T a, T b, T c) {                                          \
        auto compute = [](T x, T y, T z) { return lowgraph_fused(x, y, z); };                \
        return lowgraph_directed<T>(lowgraph_##mode, compute, a, b, c);                      \
    }
LOWGRAPH_DIRECTED(float, __f, __fmaf, rz)
LOWGRAPH_DIRECTED(float, __f, __fmaf, ru)
LOWGRAPH_DIRECTED(float, __f, __fmaf, rd)
LOWGRAPH_DIRECTED(double, __d, __fma, rz)
LOWGRAPH_DIRECTED(double, __d, __fma, ru)
LOWGRAPH_DIRECTED(double, __d, __fma, rd)
#undef LOWGRAPH_DIRECTED

static inline double __drcp_rn(double x) { return lowgraph_rounded(1.0 / x); }
static inline double __dsqrt_rn(double x) { return lowgraph_rounded(sqrt(x)); }
static inline float __frsqrt_rn(float x) { return (float)(1.0 / sqrt((double)x)); }
