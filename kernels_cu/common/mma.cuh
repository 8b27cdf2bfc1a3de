// Products of bfloat16 and TF32 tiles by tensor cores, and what feeds them: compute capability 8.0.
//
// Each function has a portable twin of the same fragment layout (docs/kernels.md, "Twins"). All 32
// lanes of a warp take part, together. With g = lane / 4 and t = lane % 4 a lane holds
//   A [16,16]  a[0..3]: row g, or g + 8 (odd registers); columns 2t, 2t+1, or 8 more (a[2], a[3])
//   B [16,8]   low, high: rows 2t, 2t+1, or 8 more; column g
//   D [16,8]   d[0..3]: row g (0, 1) or g + 8 (2, 3); columns 2t, 2t+1
// A register holds two neighbours, the first in its low half. Two D tiles beside each other,
// packed, are an A tile: a product feeds the next one without leaving the registers.
// Of TF32 numbers, one a register, a product takes half as many:
//   A [16,8]   a[0..3]: row g, or g + 8 (odd registers); column t, or t + 4 (a[2], a[3])
//   B [8,8]    low, high: row t, or t + 4; column g
#pragma once

#include <cuda_bf16.h>
#ifdef LOWGRAPH_HOST
#include <cuda_pipeline_primitives.h>
#endif

#include "common/approximate.cuh"  // power_of_two

#define ALL_LANES 0xffffffffu

// An address in shared memory, in bytes: 32 bits on a GPU, so that offsets cost no instruction.
#ifdef LOWGRAPH_HOST
typedef char* SharedAddress;
#else
typedef unsigned SharedAddress;
#endif

__device__ __forceinline__ SharedAddress shared_address(const void* shared)
{
#ifdef LOWGRAPH_HOST
    return const_cast<char*>(static_cast<const char*>(shared));
#else
    return static_cast<unsigned>(__cvta_generic_to_shared(shared));
#endif
}

__device__ __forceinline__ unsigned pack_pair(float low, float high)
{
    __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    return *reinterpret_cast<unsigned*>(&pair);
}

__device__ __forceinline__ float low_of(unsigned pair)
{
    return __uint_as_float(pair << 16);
}

__device__ __forceinline__ float high_of(unsigned pair)
{
    return __uint_as_float(pair & 0xffff0000u);
}

// d += a b. The products are exact; tensor cores cut the sum's low bits off where float rounds.
__device__ __forceinline__ void multiply_add(
    float (&d)[4], const unsigned (&a)[4], unsigned low, unsigned high)
{
#ifdef LOWGRAPH_HOST
    typedef unsigned long long Two;
    int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    for (int half = 0; half < 2; half++) {
        Two rows = a[2 * half] | (Two)a[2 * half + 1] << 32, column = half ? high : low;
        for (int pair = 0; pair < 4; pair++) {
            Two left = __shfl_sync(ALL_LANES, rows, 4 * g + pair);
            unsigned right[2];
            for (int j = 0; j < 2; j++) {
                right[j] = (unsigned)__shfl_sync(ALL_LANES, column, 4 * (2 * t + j) + pair);
            }
            for (int j = 0; j < 4; j++) {
                unsigned from = (unsigned)(j < 2 ? left : left >> 32), with = right[j % 2];
                d[j] = fmaf(low_of(from), low_of(with), d[j]);
                d[j] = fmaf(high_of(from), high_of(with), d[j]);
            }
        }
    }
#else
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(low), "r"(high));
#endif
}

// Rounded to the 10 bits of fraction of TF32: to nearest, ties away from zero.
__device__ __forceinline__ float rounded_tf32(float x)
{
#ifdef LOWGRAPH_HOST
    bool finite = (__float_as_uint(x) & 0x7f800000u) != 0x7f800000u;
    return finite ? __uint_as_float((__float_as_uint(x) + 0x1000u) & 0xffffe000u) : x;
#else
    unsigned rounded;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(x));
    return __uint_as_float(rounded);
#endif
}

// d += a b of rounded numbers, which are exact products again.
__device__ __forceinline__ void multiply_add_tf32(
    float (&d)[4], const float (&a)[4], float low, float high)
{
#ifdef LOWGRAPH_HOST
    // By shared memory: two meetings of the warp instead of 24 shuffles, each of which is one.
    __shared__ float room[32][32][6];
    float(*lanes)[6] = room[threadIdx.x / 32];
    int own = threadIdx.x % 32, g = own / 4, t = own % 4;
    for (int r = 0; r < 4; r++) lanes[own][r] = a[r];
    lanes[own][4] = low;
    lanes[own][5] = high;
    __syncwarp();
    for (int k = 0; k < 8; k++) {
        for (int j = 0; j < 4; j++) {
            float left = lanes[4 * g + k % 4][j / 2 + k / 4 * 2];
            float right = lanes[4 * (2 * t + j % 2) + k % 4][4 + k / 4];
            d[j] = fmaf(left, right, d[j]);
        }
    }
    __syncwarp();
#else
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(__float_as_uint(a[0])), "r"(__float_as_uint(a[1])), "r"(__float_as_uint(a[2])),
          "r"(__float_as_uint(a[3])), "r"(__float_as_uint(low)), "r"(__float_as_uint(high)));
#endif
}

// Four neighbours of a row out of two D tiles beside each other, of which the lane has x and y: two
// of its own and two of the lane next to it. Even lanes get columns 2t .. 2t+3 of the first tile,
// odd ones 2t-2 .. 2t+1 of the second. So rows go to memory by whole sectors.
__device__ __forceinline__ float4 joined_quad(float x0, float x1, float y0, float y1)
{
    bool odd = threadIdx.x % 2 != 0;
    float first = __shfl_xor_sync(ALL_LANES, odd ? x0 : y0, 1);
    float second = __shfl_xor_sync(ALL_LANES, odd ? x1 : y1, 1);
    return odd ? make_float4(first, second, y0, y1) : make_float4(x0, x1, first, second);
}

__device__ __forceinline__ uint2 pack_quad(float4 q)
{
    return make_uint2(pack_pair(q.x, q.y), pack_pair(q.z, q.w));
}

// Four 8x8 matrices from shared memory. Lane l names row l % 8 of matrix l / 8: 16 bytes at a
// multiple of 16. m[i] is row g, columns 2t, 2t+1 of matrix i.
__device__ __forceinline__ void load_matrices(unsigned (&m)[4], SharedAddress row)
{
#ifdef LOWGRAPH_HOST
    int lane = threadIdx.x % 32;
    for (int i = 0; i < 4; i++) {
        size_t from = __shfl_sync(ALL_LANES, (size_t)row, 8 * i + lane / 4);
        m[i] = reinterpret_cast<const unsigned*>(from)[lane % 4];
    }
#else
    asm volatile(
        "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
        : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3]) : "r"(row) : "memory");
#endif
}

// The same, transposed: m[i] is rows 2t, 2t+1 and column g of matrix i.
__device__ __forceinline__ void load_transposed(unsigned (&m)[4], SharedAddress row)
{
#ifdef LOWGRAPH_HOST
    int lane = threadIdx.x % 32;
    for (int i = 0; i < 4; i++) {
        m[i] = 0;
        for (int half = 0; half < 2; half++) {
            size_t from = __shfl_sync(ALL_LANES, (size_t)row, 8 * i + lane % 4 * 2 + half);
            unsigned value = reinterpret_cast<const unsigned short*>(from)[lane / 4];
            m[i] |= value << 16 * half;
        }
    }
#else
    asm volatile(
        "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
        : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3]) : "r"(row) : "memory");
#endif
}

// Starts a copy of 16 bytes to shared memory, both addresses multiples of 16; zeros instead if the
// source does not exist.
__device__ __forceinline__ void start_copy(SharedAddress shared, const void* global, bool exists)
{
#ifdef LOWGRAPH_HOST
    __pipeline_memcpy_async(shared, global, 16, exists ? 0 : 16);
#else
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :: "r"(shared), "l"(global), "r"(exists ? 16 : 0) : "memory");
#endif
}

// The same for 4 bytes.
__device__ __forceinline__ void start_copy_word(
    SharedAddress shared, const float* global, bool exists)
{
#ifdef LOWGRAPH_HOST
    __pipeline_memcpy_async(shared, global, 4, exists ? 0 : 4);
#else
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
                 :: "r"(shared), "l"(global), "r"(exists ? 4 : 0) : "memory");
#endif
}

// Closes the batch of copies that this thread has started.
__device__ __forceinline__ void close_batch()
{
#ifdef LOWGRAPH_HOST
    __pipeline_commit();
#else
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// Waits for this thread's copies, except those of the NEWEST batches closed last; other threads see
// them after a barrier.
template <int NEWEST>
__device__ __forceinline__ void wait_for_batches()
{
#ifdef LOWGRAPH_HOST
    __pipeline_wait_prior(NEWEST);
#else
    asm volatile("cp.async.wait_group %0;" :: "n"(NEWEST) : "memory");
#endif
}
