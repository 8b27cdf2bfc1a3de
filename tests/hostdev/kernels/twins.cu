// Kernels that use what only a GPU has, with a portable twin between `#ifdef LOWGRAPH_HOST` and
// `#else` where the host device needs one. The GPU's branch needs compute capability 8.0. docs/kernels.md explains the convention.
#include <cuda_bf16.h>
#include <cuda_pipeline.h>

// ---- inline PTX ----
// Bitwise a ? b : c, one instruction on the GPU.
__device__ unsigned select_bits(unsigned a, unsigned b, unsigned c) {
#ifdef LOWGRAPH_HOST
    return (a & b) | (~a & c);
#else
    unsigned d;
    asm("lop3.b32 %0, %1, %2, %3, 0xCA;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    return d;
#endif
}

// y[i] = the bits of b[i] where a[i] has a one, of c[i] elsewhere. Launch: one thread an element.
extern "C" __global__ void select_words(unsigned* y, const unsigned* a, const unsigned* b, const unsigned* c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = select_bits(a[i], b[i], c[i]);
}

// ---- tensor cores ----
// d += a b for tiles a [16, 16], b [16, 8] of bfloat16 and d [16, 8] of float that the 32 lanes of a
// warp hold together. With g = lane / 4 and t = lane % 4 a lane has
//   a[0..3]: row g or g + 8 (odd registers), columns 2t and 2t + 1, or 8 more (registers 2 and 3);
//   b[0..1]: rows 2t and 2t + 1, or 8 more, column g;
//   d[0..3]: row g (0, 1) or g + 8 (2, 3), columns 2t and 2t + 1.
__device__ void multiply_tiles(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
#ifdef LOWGRAPH_HOST
    int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    for (int k = 0; k < 16; k++) {
        int pair = k % 8 / 2;  // the t of the lanes that hold column k of a and row k of b
        bool high = k % 2 != 0;
        float left[2], right[2];
        for (int half = 0; half < 2; half++) {
            unsigned word = __shfl_sync(0xffffffffu, a[k / 8 * 2 + half], 4 * g + pair);
            left[half] = __uint_as_float(high ? word & 0xffff0000u : word << 16);
            word = __shfl_sync(0xffffffffu, b[k / 8], 4 * (2 * t + half) + pair);
            right[half] = __uint_as_float(high ? word & 0xffff0000u : word << 16);
        }
        for (int j = 0; j < 4; j++) d[j] = fmaf(left[j / 2], right[j % 2], d[j]);
    }
#else
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

__device__ unsigned two_of(const __nv_bfloat16* low, const __nv_bfloat16* high) {
    return (unsigned)__bfloat16_as_ushort(*low) | (unsigned)__bfloat16_as_ushort(*high) << 16;
}

// y [16, columns] = a [16, depth] b [depth, columns]; depth in sixteens, columns in eights.
// Launch: one warp for each 8 columns.
extern "C" __global__ void tensor_product(float* y, const __nv_bfloat16* a, const __nv_bfloat16* b, int depth, int columns) {
    int g = threadIdx.x / 4, t = threadIdx.x % 4, first = 8 * blockIdx.x;
    float sum[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    for (int k = 0; k < depth; k += 16) {
        unsigned left[4], right[2];
        for (int r = 0; r < 4; r++) {
            const __nv_bfloat16* pair = a + (g + r % 2 * 8) * depth + k + 2 * t + r / 2 * 8;
            left[r] = two_of(pair, pair + 1);
        }
        for (int r = 0; r < 2; r++) {
            const __nv_bfloat16* top = b + (k + 2 * t + r * 8) * columns + first + g;
            right[r] = two_of(top, top + columns);
        }
        multiply_tiles(sum, left, right);
    }
    for (int j = 0; j < 4; j++) y[(g + j / 2 * 8) * columns + first + 2 * t + j % 2] = sum[j];
}

// ---- asynchronous copies: by CUDA's primitives, which need no twin ----
// y[t] = sum over s of s-weighted x[s][127 - t], tiles of 128 float4 streamed through two buffers: the
// next tile is under way while one is used. x: [tiles, 128] of float4. Launch: one block of 128.
extern "C" __global__ void streamed_sum(float4* y, const float4* x, int tiles) {
    __shared__ float4 buffer[2][128];
    int t = threadIdx.x;
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    __pipeline_memcpy_async(&buffer[0][t], x + t, sizeof(float4));
    __pipeline_commit();
    for (int s = 0; s < tiles; s++) {
        const float4* next = x + (s + 1) * 128 + t;
        if (s + 1 < tiles) __pipeline_memcpy_async(&buffer[(s + 1) % 2][t], next, sizeof(float4));
        __pipeline_commit();  // empty after the last tile, so that one batch is newer than tile s
        __pipeline_wait_prior(1);
        __syncthreads();  // what all threads have copied is there
        float4 v = buffer[s % 2][127 - t];
        sum = make_float4(sum.x + s * v.x, sum.y + s * v.y, sum.z + s * v.z, sum.w + s * v.w);
        __syncthreads();
    }
    y[t] = sum;
}
