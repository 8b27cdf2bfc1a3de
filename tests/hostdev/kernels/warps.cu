// Warp operations with any mask, for test_engine_warps.py.
#include <cooperative_groups.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

// Row by row of the arrays (steps x threads): out = what the shuffle of that step gives. Modes:
// 0 by index, 1 up, 2 down, 3 xor; arg is the thread's own source lane, delta or lane mask. A
// thread whose mask lacks its lane sits the step out.
extern "C" __global__ void shuffles(int* out, const int* x, const unsigned* masks, const int* modes,
                                    const int* args, const int* widths, int steps) {
    const int threads = blockDim.x, lane = threadIdx.x % 32;
    for (int step = 0; step < steps; ++step) {
        const int at = step * threads + threadIdx.x;
        const unsigned mask = masks[at];
        if (!(mask >> lane & 1)) continue;
        const int value = x[at], arg = args[at], width = widths[step];
        int got = 0;
        if (modes[step] == 0) got = __shfl_sync(mask, value, arg, width);
        else if (modes[step] == 1) got = __shfl_up_sync(mask, value, arg, width);
        else if (modes[step] == 2) got = __shfl_down_sync(mask, value, arg, width);
        else got = __shfl_xor_sync(mask, value, arg, width);
        out[at] = got;
    }
}

// out[thread] = {ballot, any, all, sum by __reduce_add_sync, lanes with the same value}; a thread
// whose leave flag is set returns first and is in nobody's result.
extern "C" __global__ void votes(unsigned* out, const unsigned* values, const unsigned* masks,
                                 const int* leave) {
    const int t = threadIdx.x;
    if (leave[t]) return;
    const unsigned mask = masks[t], value = values[t];
    out[5 * t] = __ballot_sync(mask, value & 1);
    out[5 * t + 1] = __any_sync(mask, value & 1) != 0;
    out[5 * t + 2] = __all_sync(mask, value & 1) != 0;
    out[5 * t + 3] = __reduce_add_sync(mask, value);
    out[5 * t + 4] = __match_any_sync(mask, value & 3);
}

// Values of four and eight bytes go through a shuffle whole.
extern "C" __global__ void shuffle_wide(double* d, long long* l, float* f) {
    const int other = 31 - (int)threadIdx.x % 32;
    const unsigned all = 0xffffffffu;
    d[threadIdx.x] = __shfl_sync(all, threadIdx.x * 1.25, other);
    l[threadIdx.x] = __shfl_sync(all, (long long)threadIdx.x << 40, other);
    f[threadIdx.x] = __shfl_sync(all, threadIdx.x * 0.5f, other);
}

// Lanes run through different numbers of steps, each half of a warp by itself, then meet again.
extern "C" __global__ void halves(int* out, const int* steps) {
    const int lane = threadIdx.x % 32;
    const unsigned half = lane < 16 ? 0x0000ffffu : 0xffff0000u;
    int total = lane;
    for (int k = 0; k < steps[threadIdx.x / 16]; ++k) {
        total += __shfl_xor_sync(half, total, 1 << k % 4);
    }
    __syncwarp();
    out[threadIdx.x] = total + __shfl_xor_sync(0xffffffffu, total, 16);
}

// members[round][thread] = the ballot of that round; thread t takes part in rounds[t] of them with
// its one mask and returns. The masks keep naming lanes that have returned.
extern "C" __global__ void leave_in_turn(unsigned* members, const unsigned* masks,
                                         const int* rounds) {
    for (int round = 0; round < rounds[threadIdx.x]; ++round) {
        members[round * blockDim.x + threadIdx.x] = __ballot_sync(masks[threadIdx.x], 1);
    }
}

// out[thread] = the sum of its tile of 8, then of the block, through cooperative groups.
extern "C" __global__ void tile_sums(float* out, const float* x) {
    __shared__ float tiles[128];
    const auto block = cooperative_groups::this_thread_block();
    const auto tile = cooperative_groups::tiled_partition<8>(block);
    float sum = x[block.thread_rank()];
    for (int distance = 4; distance > 0; distance /= 2) sum += tile.shfl_xor(sum, distance);
    if (tile.thread_rank() == 0) tiles[tile.meta_group_rank()] = sum;
    block.sync();
    float total = 0.0f;
    for (unsigned i = 0; i < tile.meta_group_size(); ++i) total += tiles[i];
    out[2 * block.thread_rank()] = sum;
    out[2 * block.thread_rank() + 1] = total;
}

// y = a * x + y in half precision, z = x in bfloat16.
extern "C" __global__ void half_precision(__half* y, __nv_bfloat16* z, const __half* x, float a,
                                          int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    y[i] = __float2half(a * __half2float(x[i]) + __half2float(y[i]));
    z[i] = __float2bfloat16(__half2float(x[i]));
}
