// Device functions of half and bfloat16 that CUDA's headers define for the GPU alone. One template
// each for both types; results are computed in a wider type and rounded once, to nearest even.
#pragma once

// Specialised beside each type: `pair` is its two-element type; `of` rounds a float or a double
// once.
template <class T>
struct LowgraphNarrow;
template <class T>
struct LowgraphNarrowPair;
template <class T>
concept lowgraph_narrow = requires { typename LowgraphNarrow<T>::pair; };
template <class P>
concept lowgraph_pair = requires { typename LowgraphNarrowPair<P>::element; };

// A double as a float, rounded to odd: a second rounding, to 11 bits or fewer, is then the only one
// that shows (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008).
static inline float lowgraph_to_odd(double x) {
    const float nearest = (float)x;
    if ((double)nearest == x || nearest != nearest || __builtin_isinf(nearest)) return nearest;
    const bool outside = fabs((double)nearest) > fabs(x);
    const float inside = outside ? std::nextafter(nearest, 0.0f) : nearest;
    return lowgraph_bits<float>(lowgraph_bits<unsigned>(inside) | 1u);
}
// a * b + c as a double whose last bit tells, by being odd, that something was cut off.
static inline double lowgraph_fused_to_odd(float a, float b, float c) {
    const double product = (double)a * b, sum = product + c;  // 22 bits: the product is exact
    if (!__builtin_isfinite(sum)) return sum;
    const double back = sum - product, lost = (product - (sum - back)) + (c - back);
    if (lost == 0.0 || (lowgraph_bits<unsigned long long>(sum) & 1)) return sum;
    return std::nextafter(sum, lost > 0.0 ? __builtin_inf() : -__builtin_inf());
}

// ---- to integers and from them ----
#define LOWGRAPH_NARROW_TO(half, T, To, to, via)        \
    static inline To __##half##2##to##_rn(T x) {        \
        return lowgraph_clamped<To>(via##_rn(float(x))); \
    }                                                   \
    static inline To __##half##2##to##_rd(T x) {        \
        return lowgraph_clamped<To>(via##_rd(float(x))); \
    }                                                   \
    static inline To __##half##2##to##_ru(T x) {        \
        return lowgraph_clamped<To>(via##_ru(float(x))); \
    }
#define LOWGRAPH_NARROW_TO_ALL(half, T)                                        \
    LOWGRAPH_NARROW_TO(half, T, int, int, __float2int)                         \
    LOWGRAPH_NARROW_TO(half, T, short, short, __float2int)                     \
    LOWGRAPH_NARROW_TO(half, T, unsigned, uint, __float2uint)                  \
    LOWGRAPH_NARROW_TO(half, T, unsigned short, ushort, __float2uint)          \
    LOWGRAPH_NARROW_TO(half, T, long long, ll, __float2ll)                     \
    LOWGRAPH_NARROW_TO(half, T, unsigned long long, ull, __float2ull)
template <class To, class From>
static inline To lowgraph_clamped(From x) {
    if constexpr (sizeof(To) >= sizeof(From)) {
        return x;
    } else {
        const From highest = (From)(std::is_signed_v<To> ? 0x7fff : 0xffff);
        const From lowest = std::is_signed_v<To> ? -highest - 1 : 0;
        return (To)(x < lowest ? lowest : x > highest ? highest : x);
    }
}

// ---- fused multiply-add ----
template <lowgraph_narrow T>
static inline T __hfma(T a, T b, T c) {
    return LowgraphNarrow<T>::of(lowgraph_fused_to_odd(float(a), float(b), float(c)));
}
template <lowgraph_narrow T>
static inline T __hfma_sat(T a, T b, T c) {
    const double sum = lowgraph_fused_to_odd(float(a), float(b), float(c));
    return LowgraphNarrow<T>::of(fmin(fmax(sum, 0.0), 1.0));  // a NaN becomes 0
}
template <lowgraph_narrow T>
static inline T __hfma_relu(T a, T b, T c) {
    const T sum = __hfma(a, b, c);
    return float(sum) <= 0.0f ? LowgraphNarrow<T>::of(0.0) : sum;  // -0 becomes 0, NaN stays
}

// ---- functions of one number, and of both of a pair ----
template <lowgraph_pair P>
static inline P lowgraph_of_pair(auto function, P first, auto... more) {
    return P(function(first.x, more.x...), function(first.y, more.y...));
}
#define LOWGRAPH_PAIRED3(pair_name, name)                                                  \
    template <lowgraph_pair P>                                                             \
    static inline P pair_name(P a, P b, P c) {                                             \
        return lowgraph_of_pair([](auto x, auto y, auto z) { return name(x, y, z); }, a, b, c); \
    }
LOWGRAPH_PAIRED3(__hfma2, __hfma)
LOWGRAPH_PAIRED3(__hfma2_sat, __hfma_sat)
LOWGRAPH_PAIRED3(__hfma2_relu, __hfma_relu)
#undef LOWGRAPH_PAIRED3

#define LOWGRAPH_NARROW_FUNCTION(suffix, expression)                              \
    template <lowgraph_narrow T>                                                  \
    static inline T h##suffix(T narrow) {                                         \
        const double x = (double)float(narrow);                                   \
        return LowgraphNarrow<T>::of(expression);                                 \
    }                                                                             \
    template <lowgraph_pair P>                                                    \
    static inline P h2##suffix(P a) {                                             \
        return lowgraph_of_pair([](auto each) { return h##suffix(each); }, a);    \
    }
LOWGRAPH_NARROW_FUNCTION(trunc, (trunc)(x))
LOWGRAPH_NARROW_FUNCTION(ceil, (ceil)(x))
LOWGRAPH_NARROW_FUNCTION(floor, (floor)(x))
LOWGRAPH_NARROW_FUNCTION(rint, (rint)(x))
LOWGRAPH_NARROW_FUNCTION(sqrt, (sqrt)(x))
LOWGRAPH_NARROW_FUNCTION(rsqrt, 1.0 / (sqrt)(x))
LOWGRAPH_NARROW_FUNCTION(rcp, 1.0 / x)
LOWGRAPH_NARROW_FUNCTION(log, (log)(x))
LOWGRAPH_NARROW_FUNCTION(log2, (log2)(x))
LOWGRAPH_NARROW_FUNCTION(log10, (log10)(x))
LOWGRAPH_NARROW_FUNCTION(exp, (exp)(x))
LOWGRAPH_NARROW_FUNCTION(exp2, (exp2)(x))
LOWGRAPH_NARROW_FUNCTION(exp10, (pow)(10.0, x))
LOWGRAPH_NARROW_FUNCTION(sin, (sin)(x))
LOWGRAPH_NARROW_FUNCTION(cos, (cos)(x))
LOWGRAPH_NARROW_FUNCTION(tanh, (tanh)(x))
LOWGRAPH_NARROW_FUNCTION(tanh_approx, (tanh)(x))
#undef LOWGRAPH_NARROW_FUNCTION

// (a.x + i a.y) (b.x + i b.y) + c, rounded after each fused step as on a GPU.
template <lowgraph_pair P>
static inline P __hcmadd(P a, P b, P c) {
    const auto real = __hfma(-a.y, b.y, __hfma(a.x, b.x, c.x));
    return P(real, __hfma(a.y, b.x, __hfma(a.x, b.y, c.y)));
}
