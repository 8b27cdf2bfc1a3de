// Each function of common/mma.cuh alone, one register a lane in and out.
#include "common/mma.cuh"

// d [32,4] = a [32,4] b [32,2] + c [32,4], a row a lane. Launch: one warp.
extern "C" __global__ void fragment_product(
    float* d, const unsigned* a, const unsigned* b, const float* c)
{
    int lane = threadIdx.x;
    unsigned left[4];
    float sum[4];
    for (int r = 0; r < 4; r++) {
        left[r] = a[4 * lane + r];
        sum[r] = c[4 * lane + r];
    }
    multiply_add(sum, left, b[2 * lane], b[2 * lane + 1]);
    for (int r = 0; r < 4; r++) d[4 * lane + r] = sum[r];
}

// The same of TF32 numbers, which are rounded first. Launch: warps, each its own 32 rows.
extern "C" __global__ void fragment_product_tf32(
    float* d, const float* a, const float* b, const float* c)
{
    int lane = threadIdx.x;
    float left[4], sum[4];
    for (int r = 0; r < 4; r++) {
        left[r] = rounded_tf32(a[4 * lane + r]);
        sum[r] = c[4 * lane + r];
    }
    multiply_add_tf32(sum, left, rounded_tf32(b[2 * lane]), rounded_tf32(b[2 * lane + 1]));
    for (int r = 0; r < 4; r++) d[4 * lane + r] = sum[r];
}

// quads [32,4] = what each lane gets of x [32,4]: two neighbours of each of two tiles. Launch: one
// warp.
extern "C" __global__ void quads_of_fragments(float* quads, unsigned* packed, const float* x)
{
    const float* own = x + 4 * threadIdx.x;
    float4 quad = joined_quad(own[0], own[1], own[2], own[3]);
    reinterpret_cast<float4*>(quads)[threadIdx.x] = quad;
    reinterpret_cast<uint2*>(packed)[threadIdx.x] = pack_quad(quad);
}

// plain, turned [32,4]: what each lane gets of the matrices whose rows start at memory[rows[lane]].
// memory: 1024 numbers. Launch: one warp.
extern "C" __global__ void fragments_of_memory(
    unsigned* plain, unsigned* turned, const unsigned short* memory, const int* rows)
{
    __shared__ __align__(16) unsigned short shared[1024];
    int lane = threadIdx.x;
    for (int i = lane; i < 1024; i += 32) shared[i] = memory[i];
    __syncthreads();
    unsigned m[4];
    load_matrices(m, shared_address(shared) + 2 * rows[lane]);
    for (int r = 0; r < 4; r++) plain[4 * lane + r] = m[r];
    load_transposed(m, shared_address(&shared[rows[lane]]));
    for (int r = 0; r < 4; r++) turned[4 * lane + r] = m[r];
}

// y [tiles,128], z [tiles,128] = x and w backwards in each tile of 128, tiles streamed through three
// buffers two ahead; 0 where exists [tiles,128] is 0. Launch: one block of 128.
extern "C" __global__ void streamed_backwards(
    uint4* y, float* z, const uint4* x, const float* w, const int* exists, int tiles)
{
    __shared__ uint4 wide[3][128];
    __shared__ float narrow[3][128];
    int t = threadIdx.x;
    for (int s = -2; s < tiles; s++) {
        int ahead = s + 2, from = ahead * 128 + t;
        if (s >= 0) {
            wait_for_batches<1>();
            __syncthreads();
        }
        if (ahead < tiles) {
            start_copy(shared_address(&wide[ahead % 3][t]), x + from, exists[from]);
            start_copy_word(shared_address(&narrow[ahead % 3][t]), w + from, exists[from]);
        }
        close_batch();
        if (s < 0) continue;
        y[s * 128 + t] = wide[s % 3][127 - t];
        z[s * 128 + t] = narrow[s % 3][127 - t];
    }
}

// powers = 2^x; pairs = x and y rounded, x below; low, high = those again. Launch: a thread each.
extern "C" __global__ void numbers(
    float* powers, unsigned* pairs, float* low, float* high, const float* x, const float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    powers[i] = power_of_two(x[i]);
    pairs[i] = pack_pair(x[i], y[i]);
    low[i] = low_of(pairs[i]);
    high[i] = high_of(pairs[i]);
}
