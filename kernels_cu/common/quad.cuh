// Four neighbouring floats, moved in one access where the address allows it.
//
// A thread that owns four elements reads 16 bytes at once on a GPU, and costs the host device one
// loop turn instead of four. `valid` (1..4) is how many of the four exist: the rest read as 0 and
// are not written, so a row or an array may have any length and may start at any float.
#pragma once

// How many of elements i .. i+3 lie before `end`; i < end.
__device__ __forceinline__ int quad_valid(long long i, long long end)
{
    return end - i < 4 ? (int)(end - i) : 4;
}

__device__ __forceinline__ bool quad_aligned(const float* p)
{
    return ((size_t)p & 15) == 0;
}

__device__ __forceinline__ float4 load_quad(const float* p, int valid)
{
    if (valid == 4 && quad_aligned(p)) return *reinterpret_cast<const float4*>(p);
    float y = valid > 1 ? p[1] : 0.0f, z = valid > 2 ? p[2] : 0.0f, w = valid > 3 ? p[3] : 0.0f;
    return make_float4(p[0], y, z, w);
}

// A quad of a row that begins at a multiple of 16 bytes and has a multiple of four elements: one
// access and no branch, so that a compiler can start many before it waits for the first.
__device__ __forceinline__ float4 load_whole_quad(const float* p)
{
    return *reinterpret_cast<const float4*>(p);
}

__device__ __forceinline__ void store_quad(float* p, float4 q, int valid)
{
    if (valid == 4 && quad_aligned(p)) {
        *reinterpret_cast<float4*>(p) = q;
        return;
    }
    p[0] = q.x;
    if (valid > 1) p[1] = q.y;
    if (valid > 2) p[2] = q.z;
    if (valid > 3) p[3] = q.w;
}

// load_quad where WHOLE says beforehand that four exist and the address allows one access: loads
// with a branch around each of them wait for one another, those of a loop without one do not.
template <bool WHOLE, typename T>
__device__ __forceinline__ float4 load_quad_of(const T* p, int valid)
{
    if (!WHOLE) return load_quad(p, valid);
    return load_quad(static_cast<const T*>(__builtin_assume_aligned(p, 4 * sizeof(T))), 4);
}

__device__ __forceinline__ void store_whole_quad(float* p, float4 q)
{
    *reinterpret_cast<float4*>(p) = q;
}

__device__ __forceinline__ float4 same_quad(float value)
{
    return make_float4(value, value, value, value);
}

__device__ __forceinline__ float4 add_quad(float4 a, float4 b)
{
    return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

__device__ __forceinline__ float4 multiply_quad(float4 a, float4 b)
{
    return make_float4(a.x * b.x, a.y * b.y, a.z * b.z, a.w * b.w);
}

// sum + a * b
__device__ __forceinline__ float4 fma_quad(float4 a, float4 b, float4 sum)
{
    return make_float4(
        fmaf(a.x, b.x, sum.x), fmaf(a.y, b.y, sum.y), fmaf(a.z, b.z, sum.z), fmaf(a.w, b.w, sum.w));
}

__device__ __forceinline__ float dot_quad(float4 a, float4 b)
{
    return a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w;
}

// The quad at p, zeros where `valid` is 0. WHOLE: valid is 0 or 4 and p suits `load_whole_quad`.
template <bool WHOLE, class T>
__device__ __forceinline__ float4 quad_or_zeros(const T* p, int valid)
{
    if (!valid) return same_quad(0.0f);
    return WHOLE ? load_whole_quad(p) : load_quad(p, valid);
}
