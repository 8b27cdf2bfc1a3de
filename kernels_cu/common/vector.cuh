// Neighbouring elements of act_t as they lie in memory.
//
// A vector is 16 bytes, the most that one access moves: 8 bfloat16 numbers or 4 floats.
// A RawQuad is four elements: what is held for later takes half the registers as bfloat16.
//   raw_quad(p)      the quad at p, which suits load_whole_quad
//   widen_raw(raw)   exact
//   raw_of(quad)     exact for numbers that were act_t
#pragma once

#include "common/act.cuh"     // act_t, quads
#include "common/unroll.cuh"  // UNROLL

#define VECTOR_ELEMENTS (16 / (int)sizeof(act_t))

#if IS_BF16(act_t)

// The first of a pair is the lower half.
__device__ __forceinline__ void widen_vector(float* x, uint4 bits)
{
    unsigned pairs[4] = {bits.x, bits.y, bits.z, bits.w};
    UNROLL for (int k = 0; k < 4; k++) {
        x[2 * k] = __uint_as_float(pairs[k] << 16);
        x[2 * k + 1] = __uint_as_float(pairs[k] & 0xffff0000u);
    }
}

__device__ __forceinline__ uint4 rounded_vector(const float (&x)[VECTOR_ELEMENTS])
{
    return make_uint4(
        rounded_pair(x[0], x[1]), rounded_pair(x[2], x[3]), rounded_pair(x[4], x[5]),
        rounded_pair(x[6], x[7]));
}

__device__ __forceinline__ void store_element(__nv_bfloat16* p, float x)
{
    *p = __float2bfloat16_rn(x);
}

typedef uint2 RawQuad;

__device__ __forceinline__ RawQuad raw_quad(const __nv_bfloat16* p)
{
    return *reinterpret_cast<const uint2*>(p);
}

__device__ __forceinline__ float4 widen_raw(RawQuad raw)
{
    return make_float4(
        __uint_as_float(raw.x << 16), __uint_as_float(raw.x & 0xffff0000u),
        __uint_as_float(raw.y << 16), __uint_as_float(raw.y & 0xffff0000u));
}

__device__ __forceinline__ RawQuad raw_of(float4 q)
{
    return make_uint2(rounded_pair(q.x, q.y), rounded_pair(q.z, q.w));
}

#else

__device__ __forceinline__ void widen_vector(float* x, uint4 bits)
{
    x[0] = __uint_as_float(bits.x);
    x[1] = __uint_as_float(bits.y);
    x[2] = __uint_as_float(bits.z);
    x[3] = __uint_as_float(bits.w);
}

__device__ __forceinline__ uint4 rounded_vector(const float (&x)[VECTOR_ELEMENTS])
{
    return make_uint4(
        __float_as_uint(x[0]), __float_as_uint(x[1]), __float_as_uint(x[2]),
        __float_as_uint(x[3]));
}

__device__ __forceinline__ void store_element(float* p, float x)
{
    *p = x;
}

typedef float4 RawQuad;

__device__ __forceinline__ RawQuad raw_quad(const float* p)
{
    return load_whole_quad(p);
}

__device__ __forceinline__ float4 widen_raw(RawQuad raw)
{
    return raw;
}

__device__ __forceinline__ RawQuad raw_of(float4 q)
{
    return q;
}

#endif
