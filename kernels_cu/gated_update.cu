// One gated refinement of a hidden state: a candidate, let in by a gate, is added to it.
//
//   s = sigmoid(a + gate_bias),  t = tanh(b + candidate_bias),  next = h + s * t
//   da = dnext * t * s * (1 - s),  db = dnext * s * (1 - t * t)
//
// Shapes: h, next, dnext [rows,C]; gates [rows,2C], a row's a or s or da, then its b or t or db;
// biases [C]; partial [chunks,2C], by column_sum_partial of bias.cu over da and db. All float32 but
// the copies that products read, act_t, written where they are not null: narrow.
// s and t take the place of a and b, and da and db that of s and t: what a loop keeps for backward
// is one matrix for all its turns, and its weight gradient one product with it.

#include "common/act.cuh"      // act_t, quads
#include "common/sigmoid.cuh"  // sigmoid_quad
#include "common/unroll.cuh"   // IN_FLIGHT

struct Place {
    long long h, gate;  // offsets in [rows,C] and in [rows,2C]
    int c, valid;       // first of four columns, and how many of them exist; 0 past the last row
};

// The thread's four columns of a row.
__device__ __forceinline__ Place place_of(int rows, int C)
{
    int quads = (C + 3) / 4;
    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x, row = i / quads;
    Place at;
    at.c = (int)(i - row * quads) * 4;
    at.valid = row < rows ? quad_valid(at.c, C) : 0;
    at.h = row * C + at.c;
    at.gate = row * 2 * C + at.c;
    return at;
}

// Overwrites next, narrow [rows,C] with the same, and gates, a and b, with s and t. next may be h.
// Launch: block 128, grid ceil(rows*ceil(C/4)/128); four columns a thread.
extern "C" __global__ void __launch_bounds__(128) gated_update_forward(
    float* next, act_t* __restrict__ narrow, float* __restrict__ gates, const float* h,
    const float* __restrict__ gate_bias, const float* __restrict__ candidate_bias, int rows, int C)
{
    Place at = place_of(rows, C);
    if (at.valid == 0) return;
    float* gate = gates + at.gate;
    float4 s = add_quad(load_quad(gate, at.valid), load_quad(gate_bias + at.c, at.valid));
    float4 t = add_quad(load_quad(gate + C, at.valid), load_quad(candidate_bias + at.c, at.valid));
    s = sigmoid_quad(s);
    t = make_float4(tanhf(t.x), tanhf(t.y), tanhf(t.z), tanhf(t.w));
    store_quad(gate, s, at.valid);
    store_quad(gate + C, t, at.valid);
    float4 after = fma_quad(s, t, load_quad(h + at.h, at.valid));
    store_quad(next + at.h, after, at.valid);
    if (narrow) store_quad(narrow + at.h, after, at.valid);
}

// Overwrites gates, s and t, with da and db, and narrow [rows,2C] with the same.
// Launch: as gated_update_forward.
extern "C" __global__ void __launch_bounds__(128) gated_update_backward(
    float* __restrict__ gates, act_t* __restrict__ narrow, const float* __restrict__ dnext,
    int rows, int C)
{
    Place at = place_of(rows, C);
    if (at.valid == 0) return;
    float* gate = gates + at.gate;
    float4 s = load_quad(gate, at.valid), t = load_quad(gate + C, at.valid);
    float4 g = load_quad(dnext + at.h, at.valid), one = same_quad(1.0f), minus = same_quad(-1.0f);
    float4 s_slope = multiply_quad(s, fma_quad(minus, s, one));
    float4 t_slope = multiply_quad(add_quad(one, t), fma_quad(minus, t, one));
    float4 da = multiply_quad(g, multiply_quad(t, s_slope));
    float4 db = multiply_quad(g, multiply_quad(s, t_slope));
    store_quad(gate, da, at.valid);
    store_quad(gate + C, db, at.valid);
    if (!narrow) return;
    store_quad(narrow + at.gate, da, at.valid);
    store_quad(narrow + at.gate + C, db, at.valid);
}

// Overwrites both biases' gradients with the sums over chunks, in chunk order, or adds them where
// accumulate is 1.
// Launch: block 64, grid ceil(2C/64); a thread owns a column of gates.
extern "C" __global__ void __launch_bounds__(64) gated_update_bias_final(
    float* __restrict__ dgate_bias, float* __restrict__ dcandidate_bias,
    const float* __restrict__ partial, int chunks, int C, int accumulate)
{
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= 2 * C) return;
    float* to = c < C ? dgate_bias + c : dcandidate_bias + c - C;
    float sum = accumulate ? *to : 0.0f;
    IN_FLIGHT for (int chunk = 0; chunk < chunks; chunk++) {
        sum += partial[(size_t)chunk * 2 * C + c];
    }
    *to = sum;
}
