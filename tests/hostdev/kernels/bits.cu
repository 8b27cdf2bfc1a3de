// Integer and bit intrinsics. y: [k, n], a, b, c: [n] 32-bit patterns. Launch: one thread an element.

#define INDEX int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= n) return

// y: [24, n]
extern "C" __global__ void words(unsigned* y, const unsigned* a, const unsigned* b, const unsigned* c, int n) {
    INDEX;
    unsigned u = a[i], v = b[i], w = c[i];
    int p = (int)u, q = (int)v;
    unsigned rows[24] = {
        (unsigned)__popc(u), (unsigned)__clz(p), (unsigned)__ffs(p), __brev(u),
        __umulhi(u, v), (unsigned)__mulhi(p, q), __umul24(u, v), (unsigned)__mul24(p, q),
        (unsigned)__hadd(p, q), (unsigned)__rhadd(p, q), __uhadd(u, v), __urhadd(u, v),
        __sad(p, q, w), __usad(u, v, w), __byte_perm(u, v, w & 0xffff), __funnelshift_l(u, v, w),
        __funnelshift_r(u, v, w), __funnelshift_lc(u, v, w & 63), __funnelshift_rc(u, v, w & 63),
        (unsigned)__dp4a(p, q, (int)w), __dp4a(u, v, w), (unsigned)__dp2a_lo(p, q, (int)w),
        __dp2a_hi(u, v, w), min(u, v)};
    for (int k = 0; k < 24; k++) y[k * n + i] = rows[k];
}

// y: [10, n] of 64 bits; a, b 64-bit patterns.
extern "C" __global__ void double_words(unsigned long long* y, const unsigned long long* a, const unsigned long long* b, int n) {
    INDEX;
    unsigned long long u = a[i], v = b[i];
    long long p = (long long)u, q = (long long)v;
    double d = __longlong_as_double(p);
    unsigned long long rows[10] = {
        (unsigned long long)__popcll(u), (unsigned long long)__clzll(p),
        (unsigned long long)__ffsll(p), __brevll(u), __umul64hi(u, v),
        (unsigned long long)__mul64hi(p, q), (unsigned long long)__double_as_longlong(d),
        (unsigned long long)__double_as_longlong(
            __hiloint2double(__double2hiint(d), __double2loint(d))),
        (unsigned long long)max(p, q), u % (v | 1) + (unsigned long long)(p / (q | 1))};
    for (int k = 0; k < 10; k++) y[k * n + i] = rows[k];
}

// Bits of floats and back; the third, fourth, ... set bit. y: [5, n].
extern "C" __global__ void reinterpreted(unsigned* y, const unsigned* a, int n) {
    INDEX;
    unsigned u = a[i];
    y[i] = __float_as_uint(__uint_as_float(u));
    y[n + i] = (unsigned)__float_as_int(__int_as_float((int)u) * -1.0f) ^ 0x80000000u;
    y[2 * n + i] = __fns(u, 0, 3);
    y[3 * n + i] = __fns(u, 20, -2);
    y[4 * n + i] = __fns(u, 7, 0);
}
