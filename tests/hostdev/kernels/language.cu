// The language that kernels are written in: headers, templates, lambdas, constants, globals,
// vector types, assertions. Launch: any grid unless a kernel says otherwise.
#include "language.cuh"

#include <math_constants.h>

__constant__ float weights[5] = {1.0f, 2.0f, 3.0f, 4.0f, 5.0f};
__device__ int calls;
__device__ const int primes[6] = {2, 3, 5, 7, 11, 13};

// A struct by value: the caller packs it as C does. 32 bytes.
struct Parameters {
    double scale;
    float shift[3];
    short count;
    unsigned char flags;
    const float* x;
};

__device__ __noinline__ float apply(float x, int k) { return x * weights[k] + primes[k]; }

// y[i] = x[i] * weights[i % 5] + primes[i % 5]. Counts the threads that ran in `calls`.
extern "C" __global__ void __launch_bounds__(128, 2) constants(float* y, const float* x, int n) {
    static const int table[5] = {0, 1, 2, 3, 4};
    atomicAdd(&calls, 1);
    for_each(y, x, n, [&](float value, int i) { return apply(value, table[i % 5]); });
}

// y = transpose of x [rows, columns].
extern "C" __global__ void transposed(float* __restrict__ y, const float* __restrict__ x, int rows, int columns) {
    using layout::Order;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows * columns) return;
    int row = i / columns, column = i % columns;
    y[layout::offset<Order::columns>(row, column, rows, columns)] =
        x[layout::offset<Order::rows>(row, column, rows, columns)];
}

// y[i] = 1 + 2 x + 3 x^2 by a functor that holds its coefficients.
extern "C" __global__ void polynomial(float* y, const float* x, int n) {
    const Polynomial<2> p = {{1.0f, 2.0f, 3.0f}};
    for_each(y, x, n, [=](float value, int) { return p(value); });
}

// y[i] = scale * x[i] + shift[i % 3] for i < count where flags is 1, else x[i]. Launch: one block.
extern "C" __global__ void by_struct(float* y, Parameters p) {
    int i = threadIdx.x;
    float v = p.x[i];
    y[i] = i < p.count && p.flags == 1 ? (float)(p.scale * v) + p.shift[i % 3] : v;
}

// Vectors: y4 = a * 2 + (1, 2, 3, 4); y2, the sum of the halves of each double2; pixels inverted;
// ids = int4 of the thread and sizes of types. n vectors.
extern "C" __global__ void vectors(float4* y4, double* y2, uchar4* pixels, int4* ids, const float4* a, const double2* d, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float4 v = __ldg(a + i);
    float3 first = make_float3(v.x, v.y, v.z);
    y4[i] = make_float4(first.x * 2 + 1, first.y * 2 + 2, first.z * 2 + 3, v.w * 2 + 4);
    double2 pair = __ldcs(d + i);
    __stcg(y2 + i, pair.x + pair.y);
    uchar4 pixel = __ldcg(pixels + i);
    pixels[i] = make_uchar4(255 - pixel.x, 255 - pixel.y, 255 - pixel.z, pixel.w);
    ids[i] = make_int4(i, (int)sizeof(float3), (int)alignof(float4), (int)alignof(uchar4));
}

// out: loads through each hint, stores through each; all must be the plain thing. n numbers.
extern "C" __global__ void hints(float* y, const float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float sum = __ldg(x + i) + __ldcg(x + i) + __ldca(x + i) + __ldcs(x + i) + __ldlu(x + i) + __ldcv(x + i);
    __stcs(y + i, sum);
    __stwb(y + n + i, sum);
    __stwt(y + 2 * n + i, sum);
    __stcg(y + 3 * n + i, sum);
}

// y: infinities and what clocks and sleeping tell: [4].
extern "C" __global__ void odds_and_ends(float* y) {
    long long begin = clock64();
    clock_t ticks = clock();
    __nanosleep(20);
    y[0] = CUDART_INF_F;
    y[1] = -CUDART_INF_F;
    y[2] = (float)(clock64() >= begin);
    y[3] = (float)(clock() != ticks - 1);
}

template <class T>
__device__ T* dynamic_array() {
    extern __shared__ __align__(16) unsigned char dynamic_bytes[];
    return reinterpret_cast<T*>(dynamic_bytes);
}
template <class T, int count>
struct Tile {
    T values[count];
    __device__ T& operator[](int i) { return values[i]; }
};
union Word {
    float number;
    unsigned bits;
};
__device__ int factorial(int n) { return n <= 1 ? 1 : n * factorial(n - 1); }
__device__ float twice(float x) { return 2 * x; }
__device__ __forceinline__ float warp_sum(float v) {
    const int warpSize = 32;  // hides the built-in variable
#pragma unroll
    for (int offset = warpSize / 2; offset > 0; offset >>= 1) v += __shfl_xor_sync(~0u, v, offset);
    return v;
}

// Qualifiers in every order, and what else C++ offers. y: [8]. Launch: 32 threads, 128 shared bytes.
extern "C" __global__ void spellings(float* y) {
    volatile __shared__ float a[32];
    __shared__ volatile float b[32];
    static __shared__ float c[32];
    __align__(16) __shared__ float d[32];
    __shared__ __align__(16) float e[32];
    __shared__ Tile<float, 32> tile;
    __shared__ union {
        float f[32];
        int i[32];
    } both;
    __shared__ struct {
        float x;
        int n;
    } pair;
    const uint3& self = threadIdx;
    int t = self.x;
    a[t] = b[t] = c[t] = d[t] = e[t] = tile[t] = t;
    both.i[t] = __float_as_int((float)t);
    dynamic_array<float>()[t] = t;
    if (t == 0) pair = {0.5f, factorial(4)};
    __syncthreads();
    int other = 31 - t;
    float sum = warp_sum(a[other] + b[other] + c[other] + d[other] + e[other] + tile[other] +
                         both.f[other] + dynamic_array<float>()[other]);
    float (*function)(float) = t < 99 ? twice : nullptr;
    Word word;
    word.number = 1.0f;
    if constexpr (sizeof(Word) == 4) y[0] = sum;
    y[1] = function(pair.x) + pair.n;
    y[2] = (float)(word.bits >> 23);
    y[3] = abs(-1.5f) + sqrt(4.0f) + (float)max(1u, 2) + (float)min(3LL, 4LL);
    y[4] = max(nanf(""), 1.0f);
    int* heap = new int[2];
    heap[1] = 7;
    y[5] = heap[1];
    delete[] heap;
    switch (t) {
        case 40: y[6] = -1; break;
        default: goto end;
    }
end:
    y[7] = isnan(nanf("")) + isinf(CUDART_INF_F);
}

// Says who it is; asserts that x[i] is not negative. Launch: one block.
extern "C" __global__ void talking(const int* x, int n) {
    int i = threadIdx.x;
    if (i < n) {
        assert(x[i] >= 0 && "x holds counts");
        if (x[i] > 1) printf("thread %d of %s: %d, %.2f\n", i, "talking", x[i], 0.5 * x[i]);
    }
}
