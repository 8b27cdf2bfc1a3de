// Warp operations for every type that they take. Launch: one block of n threads, n <= 1024; each
// out: [n, 4] = shfl, shfl_up, shfl_down, shfl_xor of x within segments of `width` lanes.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

template <class T>
__device__ void all_shuffles(T* out, const T* x, const int* by, int width) {
    unsigned mask = 0xffffffffu;
    int t = threadIdx.x, d = by[t];
    out[4 * t] = __shfl_sync(mask, x[t], d, width);
    out[4 * t + 1] = __shfl_up_sync(mask, x[t], (unsigned)d, width);
    out[4 * t + 2] = __shfl_down_sync(mask, x[t], (unsigned)d, width);
    out[4 * t + 3] = __shfl_xor_sync(mask, x[t], d, width);
}

extern "C" __global__ void shuffle_int(int* out, const int* x, const int* by, int width) {
    all_shuffles(out, x, by, width);
}
extern "C" __global__ void shuffle_uint(unsigned* out, const unsigned* x, const int* by, int width) {
    all_shuffles(out, x, by, width);
}
extern "C" __global__ void shuffle_longlong(long long* out, const long long* x, const int* by, int width) {
    all_shuffles(out, x, by, width);
}
extern "C" __global__ void shuffle_ulonglong(unsigned long long* out, const unsigned long long* x, const int* by, int width) {
    all_shuffles(out, x, by, width);
}
extern "C" __global__ void shuffle_float(float* out, const float* x, const int* by, int width) {
    all_shuffles(out, x, by, width);
}
extern "C" __global__ void shuffle_double(double* out, const double* x, const int* by, int width) {
    all_shuffles(out, x, by, width);
}
extern "C" __global__ void shuffle_half(__half* out, const __half* x, const int* by, int width) {
    all_shuffles(out, x, by, width);
}
extern "C" __global__ void shuffle_half2(__half2* out, const __half2* x, const int* by, int width) {
    all_shuffles(out, x, by, width);
}
extern "C" __global__ void shuffle_bfloat162(__nv_bfloat162* out, const __nv_bfloat162* x, const int* by, int width) {
    all_shuffles(out, x, by, width);
}

// out: [n, 6] = reductions over the lanes of the caller's mask: add, min, max (signed), and, or,
// xor (unsigned). masks: one a lane, each a set of lanes that share it.
extern "C" __global__ void reductions(int* out, const int* x, const unsigned* masks, int n) {
    int t = threadIdx.x;
    if (t >= n) return;
    unsigned mask = masks[t];
    int* row = out + 6 * t;
    row[0] = __reduce_add_sync(mask, x[t]);
    row[1] = __reduce_min_sync(mask, x[t]);
    row[2] = __reduce_max_sync(mask, x[t]);
    row[3] = (int)__reduce_and_sync(mask, (unsigned)x[t]);
    row[4] = (int)__reduce_or_sync(mask, (unsigned)x[t]);
    row[5] = (int)__reduce_xor_sync(mask, (unsigned)x[t]);
}

// out: [n, 8] = match_any of x as int, of a long long, of a float and of a double made from it;
// match_all of x, whether all were equal; match_all of a constant, whether all were equal.
extern "C" __global__ void matches(unsigned* out, const int* x, const unsigned* masks, int n) {
    int t = threadIdx.x, equal;
    if (t >= n) return;
    unsigned mask = masks[t], *row = out + 8 * t;
    row[0] = __match_any_sync(mask, x[t]);
    row[1] = __match_any_sync(mask, (long long)x[t] << 40);
    row[2] = __match_any_sync(mask, x[t] * 0.5f);
    row[3] = __match_any_sync(mask, x[t] * 0.25);
    row[4] = __match_all_sync(mask, x[t], &equal);
    row[5] = equal != 0;
    row[6] = __match_all_sync(mask, 3.5, &equal);
    row[7] = equal != 0;
}

// Lanes that run together, as few as one: each group adds once what its lanes would add one by one.
extern "C" __global__ void aggregated_count(int* count, int* ranks, const int* x, int n) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n || x[t] == 0) return;
    unsigned together = __activemask();
    int lane = threadIdx.x % 32, leader = __ffs((int)together) - 1, base = 0;
    if (lane == leader) base = atomicAdd(count, __popc(together));
    base = __shfl_sync(together, base, leader);
    ranks[t] = base + __popc(together & ((1u << lane) - 1));
}
