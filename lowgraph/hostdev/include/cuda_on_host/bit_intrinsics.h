// Integer device functions: products, averages, byte permutation, dot products of packed bytes.
// Semantics by the CUDA math API's integer intrinsics; exact.
#pragma once

// ---- products of 24-bit integers, high halves ----
static inline int __mul24(int a, int b) { return (int)(((int64_t)(a << 8) >> 8) * (b << 8 >> 8)); }
static inline unsigned __umul24(unsigned a, unsigned b) {
    return (a & 0xffffffu) * (b & 0xffffffu);
}
static inline long long __mul64hi(long long a, long long b) {
    return (long long)((__int128)a * b >> 64);
}

// ---- averages and absolute differences, without overflow ----
static inline int __hadd(int a, int b) { return (int)(((int64_t)a + b) >> 1); }
static inline int __rhadd(int a, int b) { return (int)(((int64_t)a + b + 1) >> 1); }
static inline unsigned __uhadd(unsigned a, unsigned b) {
    return (unsigned)(((uint64_t)a + b) >> 1);
}
static inline unsigned __urhadd(unsigned a, unsigned b) {
    return (unsigned)(((uint64_t)a + b + 1) >> 1);
}
static inline unsigned __sad(int a, int b, unsigned c) {
    return c + (a < b ? (unsigned)b - (unsigned)a : (unsigned)a - (unsigned)b);
}
static inline unsigned __usad(unsigned a, unsigned b, unsigned c) {
    return c + (a < b ? b - a : a - b);
}

// ---- bits and bytes ----
static inline unsigned long long __brevll(unsigned long long x) {
    return (unsigned long long)__brev((unsigned)x) << 32 | __brev((unsigned)(x >> 32));
}
// The `offset`-th set bit of the mask, counted from bit `base`: upwards when positive, downwards
// when negative; offset 0 asks whether bit `base` itself is set. 0xffffffff: there is none.
static inline unsigned __fns(unsigned mask, unsigned base, int offset) {
    int left = offset > 0 ? offset : offset < 0 ? -offset : 1;
    for (int bit = (int)base; bit >= 0 && bit < 32; bit += offset < 0 ? -1 : 1) {
        if ((mask >> bit & 1) && --left == 0) return (unsigned)bit;
        if (offset == 0) break;
    }
    return 0xffffffffu;
}
// Four bytes chosen from the eight of y:x. A selector's low three bits name the byte; its fourth is
// not looked at (seen on an H200; the instruction prmt behind it would give the byte's sign).
static inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selectors) {
    const uint64_t bytes = (uint64_t)y << 32 | x;
    unsigned result = 0;
    for (int i = 0; i < 4; ++i) {
        const unsigned selector = selectors >> 4 * i & 7;
        result |= ((unsigned)(bytes >> 8 * selector) & 0xff) << 8 * i;
    }
    return result;
}
// The clamped forms: a shift of 32 or more gives the other word whole.
static inline unsigned __funnelshift_lc(unsigned low, unsigned high, unsigned shift) {
    return shift >= 32 ? low : __funnelshift_l(low, high, shift);
}
static inline unsigned __funnelshift_rc(unsigned low, unsigned high, unsigned shift) {
    return shift >= 32 ? high : __funnelshift_r(low, high, shift);
}

// ---- dot products of packed integers, added to c ----
template <class A, class B, class Sum>
static inline Sum lowgraph_dot4(unsigned a, unsigned b, Sum c) {
    for (int i = 0; i < 4; ++i) c += (Sum)(A)(a >> 8 * i) * (Sum)(B)(b >> 8 * i);
    return c;
}
static inline int __dp4a(int a, int b, int c) {
    return (int)lowgraph_dot4<int8_t, int8_t, unsigned>((unsigned)a, (unsigned)b, (unsigned)c);
}
static inline unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
    return lowgraph_dot4<uint8_t, uint8_t>(a, b, c);
}
static inline int __dp4a(char4 a, char4 b, int c) {
    return __dp4a(lowgraph_bits<int>(a), lowgraph_bits<int>(b), c);
}
static inline unsigned __dp4a(uchar4 a, uchar4 b, unsigned c) {
    return __dp4a(lowgraph_bits<unsigned>(a), lowgraph_bits<unsigned>(b), c);
}
// Two 16-bit integers of a with two bytes of b: bytes 0 and 1 (lo), 2 and 3 (hi).
template <class Half, class Byte, class Sum>
static inline Sum lowgraph_dot2(unsigned a, unsigned b, Sum c) {
    for (int i = 0; i < 2; ++i) c += (Sum)(Half)(a >> 16 * i) * (Sum)(Byte)(b >> 8 * i);
    return c;
}
static inline int __dp2a_lo(int a, int b, int c) {
    return (int)lowgraph_dot2<int16_t, int8_t, unsigned>((unsigned)a, (unsigned)b, (unsigned)c);
}
static inline int __dp2a_hi(int a, int b, int c) { return __dp2a_lo(a, b >> 16, c); }
static inline unsigned __dp2a_lo(unsigned a, unsigned b, unsigned c) {
    return lowgraph_dot2<uint16_t, uint8_t>(a, b, c);
}
static inline unsigned __dp2a_hi(unsigned a, unsigned b, unsigned c) {
    return __dp2a_lo(a, b >> 16, c);
}

// ---- smallest and largest, by name ----
static inline unsigned umin(unsigned a, unsigned b) { return b < a ? b : a; }
static inline unsigned umax(unsigned a, unsigned b) { return a < b ? b : a; }
static inline long long llmin(long long a, long long b) { return b < a ? b : a; }
static inline long long llmax(long long a, long long b) { return a < b ? b : a; }
static inline unsigned long long ullmin(unsigned long long a, unsigned long long b) {
    return b < a ? b : a;
}
static inline unsigned long long ullmax(unsigned long long a, unsigned long long b) {
    return a < b ? b : a;
}
// As on a GPU: a NaN loses against a number.
static inline float min(float a, float b) { return fminf(a, b); }
static inline float max(float a, float b) { return fmaxf(a, b); }
static inline double min(double a, double b) { return fmin(a, b); }
static inline double max(double a, double b) { return fmax(a, b); }
