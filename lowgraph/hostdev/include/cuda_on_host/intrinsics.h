// CUDA's device functions that the C library does not have. Results are within the bounds of the
// CUDA guide; they are not the GPU's bits.
#pragma once

// ---- loads and stores with a cache hint ----
template <class T>
static inline LOWGRAPH_QUIET T __ldg(const T* p) {
    LOWGRAPH_TELL_READ(p);
    return *p;
}
template <class T>
static inline LOWGRAPH_QUIET T __ldcs(const T* p) {
    LOWGRAPH_TELL_READ(p);
    return *p;
}
template <class T>
static inline LOWGRAPH_QUIET T __ldcg(const T* p) {
    LOWGRAPH_TELL_READ(p);
    return *p;
}
template <class T>
static inline LOWGRAPH_QUIET T __ldca(const T* p) {
    LOWGRAPH_TELL_READ(p);
    return *p;
}
template <class T>
static inline LOWGRAPH_QUIET void __stcs(T* p, T v) {
    LOWGRAPH_TELL_WRITE(p);
    *p = v;
}
template <class T>
static inline LOWGRAPH_QUIET void __stcg(T* p, T v) {
    LOWGRAPH_TELL_WRITE(p);
    *p = v;
}

// ---- float functions ----
// Macros where the C library declares, or may one day declare, a function of that name.
#define __expf(x) expf(x)
#define __exp10f(x) lowgraph_exp10f(x)
#define __logf(x) logf(x)
#define __log2f(x) log2f(x)
#define __log10f(x) log10f(x)
#define __sinf(x) sinf(x)
#define __cosf(x) cosf(x)
#define __tanf(x) tanf(x)
#define __powf(x, y) powf(x, y)
#define __sincosf(x, s, c) lowgraph_sincosf(x, s, c)
#define sincosf(x, s, c) lowgraph_sincosf(x, s, c)
#define exp10f(x) lowgraph_exp10f(x)
#define rsqrtf(x) lowgraph_rsqrtf(x)
#define rsqrt(x) lowgraph_rsqrt(x)
#define rcbrtf(x) lowgraph_rcbrtf(x)
#define sinpif(x) lowgraph_sinpif(x)
#define cospif(x) lowgraph_cospif(x)
#define normcdff(x) lowgraph_normcdff(x)

static inline float lowgraph_exp10f(float x) { return powf(10.0f, x); }
static inline void lowgraph_sincosf(float x, float* s, float* c) {
    *s = sinf(x);
    *c = cosf(x);
}
static inline float lowgraph_rsqrtf(float x) { return 1.0f / sqrtf(x); }
static inline double lowgraph_rsqrt(double x) { return 1.0 / sqrt(x); }
static inline float lowgraph_rcbrtf(float x) { return 1.0f / cbrtf(x); }
// Exact zeros and ones at multiples of a half, as on a GPU: the argument is reduced before pi comes
// in.
static inline float lowgraph_sinpif(float x) {
    return (float)sin(3.14159265358979323846 * remainder((double)x, 2.0));
}
static inline float lowgraph_cospif(float x) {
    return lowgraph_sinpif(0.5f - fabsf(remainderf(x, 2.0f)));
}
static inline float lowgraph_normcdff(float x) { return 0.5f * erfcf(-x * 0.70710678118654752f); }

static inline float __fdividef(float x, float y) { return x / y; }
static inline float __saturatef(float x) { return fminf(fmaxf(x, 0.0f), 1.0f); }

// The _rn forms are never merged into a fused multiply-add; -ffp-contract=fast would merge them
// without the barrier.
static inline float lowgraph_rounded(float x) {
    asm("" : "+x"(x));
    return x;
}
static inline double lowgraph_rounded(double x) {
    asm("" : "+x"(x));
    return x;
}
static inline float __fadd_rn(float a, float b) { return lowgraph_rounded(a + b); }
static inline float __fsub_rn(float a, float b) { return lowgraph_rounded(a - b); }
static inline float __fmul_rn(float a, float b) { return lowgraph_rounded(a * b); }
static inline float __fdiv_rn(float a, float b) { return lowgraph_rounded(a / b); }
static inline float __frcp_rn(float x) { return lowgraph_rounded(1.0f / x); }
static inline float __fsqrt_rn(float x) { return lowgraph_rounded(sqrtf(x)); }
static inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
static inline double __dadd_rn(double a, double b) { return lowgraph_rounded(a + b); }
static inline double __dsub_rn(double a, double b) { return lowgraph_rounded(a - b); }
static inline double __dmul_rn(double a, double b) { return lowgraph_rounded(a * b); }
static inline double __ddiv_rn(double a, double b) { return lowgraph_rounded(a / b); }
static inline double __fma_rn(double a, double b, double c) { return fma(a, b, c); }

// ---- bits ----
template <class To, class From>
static inline To lowgraph_bits(From from) {
    static_assert(sizeof(To) == sizeof(From));
    To to;
    memcpy(&to, &from, sizeof to);
    return to;
}
static inline float __int_as_float(int x) { return lowgraph_bits<float>(x); }
static inline int __float_as_int(float x) { return lowgraph_bits<int>(x); }
static inline float __uint_as_float(unsigned x) { return lowgraph_bits<float>(x); }
static inline unsigned __float_as_uint(float x) { return lowgraph_bits<unsigned>(x); }
static inline double __longlong_as_double(long long x) { return lowgraph_bits<double>(x); }
static inline long long __double_as_longlong(double x) { return lowgraph_bits<long long>(x); }

static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
static inline int __clz(int x) { return x != 0 ? __builtin_clz((unsigned)x) : 32; }
static inline int __clzll(long long x) {
    return x != 0 ? __builtin_clzll((unsigned long long)x) : 64;
}
static inline int __ffs(int x) { return __builtin_ffs(x); }
static inline int __ffsll(long long x) { return __builtin_ffsll(x); }
static inline unsigned __brev(unsigned x) {
    unsigned reversed = 0;
    for (int bit = 0; bit < 32; ++bit) reversed |= (x >> bit & 1) << (31 - bit);
    return reversed;
}
static inline unsigned __umulhi(unsigned a, unsigned b) {
    return (unsigned)((uint64_t)a * b >> 32);
}
static inline int __mulhi(int a, int b) { return (int)((int64_t)a * b >> 32); }
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned long long)((unsigned __int128)a * b >> 64);
}
static inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
    return (unsigned)((((uint64_t)high << 32 | low) << (shift & 31)) >> 32);
}
static inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
    return (unsigned)(((uint64_t)high << 32 | low) >> (shift & 31));
}

static inline long long clock64() { return (long long)__builtin_ia32_rdtsc(); }

// ---- min and max of mixed types ----
template <class T, class U>
static inline std::common_type_t<T, U> min(T a, U b) {
    return b < a ? b : a;
}
template <class T, class U>
static inline std::common_type_t<T, U> max(T a, U b) {
    return a < b ? b : a;
}
