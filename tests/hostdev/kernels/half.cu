// Half precision and bfloat16: every kernel works on n numbers, one thread each, or n / 2 pairs.
// Results are the types' own bits.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#define INDEX int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= n) return

__device__ __half narrow(float x, const __half*) { return __float2half(x); }
__device__ __nv_bfloat16 narrow(float x, const __nv_bfloat16*) { return __float2bfloat16(x); }

// y: [10, n] = a + b, a - b, a * b, a / b, fma(a, b, c), sqrt(|a|), -a, |a|, the smaller, the larger.
template <class T>
__device__ void arithmetic(T* y, const T* a, const T* b, const T* c, int n) {
    INDEX;
    y[i] = a[i] + b[i];
    y[n + i] = __hsub(a[i], b[i]);
    y[2 * n + i] = a[i] * b[i];
    y[3 * n + i] = __hdiv(a[i], b[i]);
    y[4 * n + i] = __hfma(a[i], b[i], c[i]);
    y[5 * n + i] = hsqrt(__habs(a[i]));
    y[6 * n + i] = -a[i];
    y[7 * n + i] = __habs(a[i]);
    y[8 * n + i] = __hmin(a[i], b[i]);
    y[9 * n + i] = __hmax(a[i], b[i]);
}
extern "C" __global__ void arithmetic_half(__half* y, const __half* a, const __half* b, const __half* c, int n) {
    arithmetic(y, a, b, c, n);
}
extern "C" __global__ void arithmetic_bf16(__nv_bfloat16* y, const __nv_bfloat16* a, const __nv_bfloat16* b, const __nv_bfloat16* c, int n) {
    arithmetic(y, a, b, c, n);
}

// The same on pairs. y: [5, n] = sum, difference, product, fma, fma with relu; n pairs.
template <class P>
__device__ void pairs(P* y, const P* a, const P* b, const P* c, int n) {
    INDEX;
    y[i] = __hadd2(a[i], b[i]);
    y[n + i] = a[i] - b[i];
    y[2 * n + i] = __hmul2(a[i], b[i]);
    y[3 * n + i] = __hfma2(a[i], b[i], c[i]);
    y[4 * n + i] = __hfma2_relu(a[i], b[i], c[i]);
}
extern "C" __global__ void pairs_half(__half2* y, const __half2* a, const __half2* b, const __half2* c, int n) {
    pairs(y, a, b, c, n);
}
extern "C" __global__ void pairs_bf16(__nv_bfloat162* y, const __nv_bfloat162* a, const __nv_bfloat162* b, const __nv_bfloat162* c, int n) {
    pairs(y, a, b, c, n);
}

// y: [10, n] = floor, ceil, trunc, rint, exp, log, rcp, rsqrt, sin, tanh... of a.
template <class T>
__device__ void functions(T* y, const T* a, int n) {
    INDEX;
    T x = a[i];
    y[i] = hfloor(x);
    y[n + i] = hceil(x);
    y[2 * n + i] = htrunc(x);
    y[3 * n + i] = hrint(x);
    y[4 * n + i] = hexp(x);
    y[5 * n + i] = hlog(__habs(x));
    y[6 * n + i] = hrcp(x);
    y[7 * n + i] = hrsqrt(__habs(x));
    y[8 * n + i] = hsin(x);
    y[9 * n + i] = hexp2(x);
}
extern "C" __global__ void functions_half(__half* y, const __half* a, int n) { functions(y, a, n); }
extern "C" __global__ void functions_bf16(__nv_bfloat16* y, const __nv_bfloat16* a, int n) {
    functions(y, a, n);
}

// From float: y [2, n] = half, bfloat16 bits to nearest even; z [6, n]: half _rz, _ru, _rd,
// bfloat16 _rz, _ru, _rd. Back to float: w [2, n].
extern "C" __global__ void conversions(unsigned short* y, unsigned short* z, float* w, const float* x, int n) {
    INDEX;
    __half h = __float2half_rn(x[i]);
    __nv_bfloat16 b = __float2bfloat16_rn(x[i]);
    y[i] = __half_as_ushort(h);
    y[n + i] = __bfloat16_as_ushort(b);
    z[i] = __half_as_ushort(__float2half_rz(x[i]));
    z[n + i] = __half_as_ushort(__float2half_ru(x[i]));
    z[2 * n + i] = __half_as_ushort(__float2half_rd(x[i]));
    z[3 * n + i] = __bfloat16_as_ushort(__float2bfloat16_rz(x[i]));
    z[4 * n + i] = __bfloat16_as_ushort(__float2bfloat16_ru(x[i]));
    z[5 * n + i] = __bfloat16_as_ushort(__float2bfloat16_rd(x[i]));
    w[i] = __half2float(h);
    w[n + i] = __bfloat162float(b);
}

// To integers: y [8, n] = half -> int by _rn, _rz, _ru, _rd; bfloat16 the same.
extern "C" __global__ void to_integers(int* y, const float* x, int n) {
    INDEX;
    __half h = __float2half(x[i]);
    __nv_bfloat16 b = __float2bfloat16(x[i]);
    y[i] = __half2int_rn(h);
    y[n + i] = __half2int_rz(h);
    y[2 * n + i] = __half2int_ru(h);
    y[3 * n + i] = __half2int_rd(h);
    y[4 * n + i] = __bfloat162int_rn(b);
    y[5 * n + i] = __bfloat162int_rz(b);
    y[6 * n + i] = __bfloat162int_ru(b);
    y[7 * n + i] = __bfloat162int_rd(b);
}

// y: [n, 9] truth of a < b, a <= b, a == b, a != b, a > b, a >= b, isnan(a), isinf(a), hgtu(a, b).
template <class T>
__device__ void comparisons(int* y, const T* a, const T* b, int n) {
    INDEX;
    int* row = y + 9 * i;
    row[0] = a[i] < b[i];
    row[1] = __hle(a[i], b[i]);
    row[2] = a[i] == b[i];
    row[3] = a[i] != b[i];
    row[4] = __hgt(a[i], b[i]);
    row[5] = a[i] >= b[i];
    row[6] = __hisnan(a[i]);
    row[7] = __hisinf(a[i]) != 0;
    row[8] = __hgtu(a[i], b[i]);
}
extern "C" __global__ void comparisons_half(int* y, const __half* a, const __half* b, int n) {
    comparisons(y, a, b, n);
}
extern "C" __global__ void comparisons_bf16(int* y, const __nv_bfloat16* a, const __nv_bfloat16* b, int n) {
    comparisons(y, a, b, n);
}

// y: [n] pairs: built from two floats, swapped, halves put together. Loads through __ldg and kin.
extern "C" __global__ void handling(__half2* y, float2* z, const __half2* a, int n) {
    INDEX;
    __half2 x = __ldg(&a[i]);
    float2 wide = __half22float2(x);
    z[i] = make_float2(__low2float(x), __high2float(x));
    __half2 swapped = __lowhigh2highlow(x);
    __half2 built = __floats2half2_rn(wide.y, wide.x);
    bool same = __half_as_ushort(swapped.x) == __half_as_ushort(built.x);
    __stcs(&y[i], same ? __halves2half2(__high2half(x), __low2half(x)) : x);
}
