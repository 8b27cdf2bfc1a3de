// act_t: the element type of activations, chosen when a kernel is compiled (-Dact_t=__nv_bfloat16).
//
// act_t is what feeds matrix products and is kept for backward: outputs of norms, qkv, attention's
// output, hidden and active of a feed-forward, logits, and the gradients of all these. float32
// whatever act_t is: the residual stream and its gradient, statistics of rows, parameters, their
// gradients, and every sum. That is the split of torch.autocast.
// A bfloat16 number is widened as it is read, which is exact, and a result is rounded once, to
// nearest even, as it is written. Quads of both types are moved by the calls of common/quad.cuh;
// four bfloat16 numbers are 8 bytes.
#pragma once

#include "common/quad.cuh"  // quads of floats

#ifndef act_t
#define act_t float
#endif

// In #if: 1 for __nv_bfloat16, 0 for float.
#define IS_BF16(type) IS_BF16_OF(type)
#define IS_BF16_OF(type) IS_BF16_##type
#define IS_BF16_float 0
#define IS_BF16___nv_bfloat16 1

__device__ __forceinline__ float widened(float x)
{
    return x;
}

#if IS_BF16(act_t)  // CUDA's header is long: float kernels are compiled without it

#include <cuda_bf16.h>

__device__ __forceinline__ float widened(__nv_bfloat16 x)
{
    return __bfloat162float(x);
}

__device__ __forceinline__ bool quad_aligned(const __nv_bfloat16* p)
{
    return ((size_t)p & 7) == 0;
}

__device__ __forceinline__ float4 load_whole_quad(const __nv_bfloat16* p)
{
    uint2 bits = *reinterpret_cast<const uint2*>(p);  // the first of a pair is the lower half
    return make_float4(
        __uint_as_float(bits.x << 16), __uint_as_float(bits.x & 0xffff0000u),
        __uint_as_float(bits.y << 16), __uint_as_float(bits.y & 0xffff0000u));
}

__device__ __forceinline__ float4 load_quad(const __nv_bfloat16* p, int valid)
{
    if (valid == 4 && quad_aligned(p)) return load_whole_quad(p);
    float y = valid > 1 ? widened(p[1]) : 0.0f, z = valid > 2 ? widened(p[2]) : 0.0f;
    return make_float4(widened(p[0]), y, z, valid > 3 ? widened(p[3]) : 0.0f);
}

__device__ __forceinline__ unsigned int rounded_pair(float x, float y)
{
    __nv_bfloat162 pair = __floats2bfloat162_rn(x, y);
    return *reinterpret_cast<unsigned int*>(&pair);
}

__device__ __forceinline__ void store_whole_quad(__nv_bfloat16* p, float4 q)
{
    *reinterpret_cast<uint2*>(p) = make_uint2(rounded_pair(q.x, q.y), rounded_pair(q.z, q.w));
}

__device__ __forceinline__ void store_quad(__nv_bfloat16* p, float4 q, int valid)
{
    if (valid == 4 && quad_aligned(p)) {
        store_whole_quad(p, q);
        return;
    }
    p[0] = __float2bfloat16_rn(q.x);
    if (valid > 1) p[1] = __float2bfloat16_rn(q.y);
    if (valid > 2) p[2] = __float2bfloat16_rn(q.z);
    if (valid > 3) p[3] = __float2bfloat16_rn(q.w);
}

#endif
