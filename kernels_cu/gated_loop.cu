// All turns of a loop of gated refinements that share their weights, in one launch each way.
//
//   h_0 = x + branch,  h_{k+1} = h_k + s_k t_k
//   s_k = sigmoid(h_k W_g^T + gate_bias),  t_k = tanh(h_k W_c^T + candidate_bias)
//   da_k = dh_{k+1} t_k s_k (1 - s_k),  db_k = dh_{k+1} s_k (1 - t_k^2)
//   dh_k = dh_{k+1} + da_k W_g + db_k W_c;  the biases' gradients sum da and db over rows and turns
//
// Shapes: x, branch, dh [rows,C]; states [turns+1,rows,C], h of each turn; gates [turns,rows,2C], a
// row's s or da, then its t or db; weight [2C,C], W_g and below it W_c; biases [C]; partial
// [chunks,2C], which gated_update_bias_final of gated_update.cu adds up. C is a multiple of 8, 128
// at most; all begin at multiples of 16 bytes.
// Rows do not meet in these formulas, so a block takes 16 of them through all turns: h and dh stay
// in registers, and what a product reads of them goes through shared memory. In tensor cores' form
// the weights stay in registers, too.
// The define LOOP_TF32 chooses what factors are rounded to: common/loop_weights.cuh.

#include "common/loop_weights.cuh"  // Lane, Weights, add_product
#include "common/sigmoid.cuh"       // sigmoid

#define FORWARD_PITCH PITCH(MOST)
#define BACKWARD_PITCH PITCH(2 * MOST)

struct ForwardWork {
    float h[2][ROWS][FORWARD_PITCH];  // factors of this turn and of the next: one barrier a turn
};

struct BackwardWork {
    float gates[2][ROWS][BACKWARD_PITCH];  // da, then db
    float sums[8][2 * MOST];               // of each g
};

// Turns products into s and t, and h into the next state.
__device__ __forceinline__ void update_state(
    float (&h)[2][4], float (&d)[4][4], const float2 (&biases)[4])
{
    UNROLL for (int j = 0; j < 2; j++) {
        UNROLL for (int e = 0; e < 4; e++) {
            float2 gate = biases[j], candidate = biases[2 + j];
            float s = sigmoid(d[j][e] + (e % 2 ? gate.y : gate.x));
            float t = tanhf(d[2 + j][e] + (e % 2 ? candidate.y : candidate.x));
            d[j][e] = s;
            d[2 + j][e] = t;
            h[j][e] = fmaf(s, t, h[j][e]);
        }
    }
}

// Overwrites all states and gates, with s and t.
// Launch: block 256, grid chunks; a chunk is `groups` times 16 rows.
extern "C" __global__ void __launch_bounds__(256) gated_loop_forward(
    float* __restrict__ states, float* __restrict__ gates, const float* __restrict__ x,
    const float* __restrict__ branch, const float* __restrict__ weight,
    const float* __restrict__ gate_bias, const float* __restrict__ candidate_bias, int rows, int C,
    int turns, int groups)
{
    __shared__ __align__(16) ForwardWork w;
    Lane me = lane_of(C);
    Weights<MOST / 16, 4> weights;
    load_forward(weights, weight, me, C);
    clear_shared(&w.h[0][0][0], 2 * ROWS * FORWARD_PITCH);
    float2 biases[4];
    UNROLL for (int j = 0; j < 4; j++) {
        biases[j] = load_pair(j < 2 ? gate_bias : candidate_bias, 0, column_of(me, j % 2), 1, C, 0);
    }
    for (int group = 0; group < groups; group++) {
        long long first = ((long long)blockIdx.x * groups + group) * ROWS;
        float h[2][4];
        UNROLL for (int i = 0; i < 4; i++) {
            int j = i / 2, e = i % 2 * 2, c = column_of(me, j);
            long long row = first + row_of(me, e);
            float2 a = load_pair(x, row, c, rows, C, C), b = load_pair(branch, row, c, rows, C, C);
            h[j][e] = a.x + b.x;
            h[j][e + 1] = a.y + b.y;
            store_pair(states, h[j][e], h[j][e + 1], row, c, rows, C, C);
        }
        for (int turn = 0; turn < turns; turn++) {
            float(*factors)[FORWARD_PITCH] = w.h[turn % 2];
            UNROLL for (int i = 0; i < 4 && me.works; i++) {
                int j = i / 2, e = i % 2 * 2, c = column_of(me, j);
                if (c < C) store_factors(&factors[row_of(me, e)][c], h[j][e], h[j][e + 1]);
            }
            __syncthreads();
            if (!me.works) continue;
            float d[4][4] = {};
            add_product(d, factors[0], FORWARD_PITCH, weights, weight, me, C, C);
            update_state(h, d, biases);
            float* to = states + (turn + 1LL) * rows * C;
            float* gate = gates + 2LL * turn * rows * C;
            UNROLL for (int i = 0; i < 4; i++) {
                int j = i / 2, e = i % 2 * 2, c = column_of(me, j);
                long long row = first + row_of(me, e);
                store_pair(to, h[j][e], h[j][e + 1], row, c, rows, C, C);
                store_pair(gate, d[j][e], d[j][e + 1], row, c, rows, C, 2 * C);
                store_pair(gate + C, d[2 + j][e], d[2 + j][e + 1], row, c, rows, C, 2 * C);
            }
        }
        __syncthreads();  // the next group's first turn writes factors again
    }
}

// One turn's s and t of the lane's elements, as loaded.
struct Gates {
    float2 s[4], t[4];  // of row g and g + 8 of tile 0, then of tile 1
};

__device__ __forceinline__ Gates load_gates(
    const float* gates, const Lane& me, long long first, int rows, int C)
{
    Gates found;
    UNROLL for (int i = 0; i < 4; i++) {
        int c = column_of(me, i / 2);
        long long row = first + row_of(me, i % 2 * 2);
        found.s[i] = load_pair(gates, row, c, rows, C, 2 * C);
        found.t[i] = load_pair(gates + C, row, c, rows, C, 2 * C);
    }
    return found;
}

__device__ __forceinline__ float gate_gradient(float dnext, float s, float t)
{
    return dnext * t * (s * (1.0f - s));
}

__device__ __forceinline__ float candidate_gradient(float dnext, float s, float t)
{
    return dnext * s * ((1.0f + t) * (1.0f - t));
}

// Turns s and t into da and db, adds them to the lane's sums, and writes them: whole to the gates,
// as factors to shared memory.
__device__ __forceinline__ void write_gates(
    float (*factors)[BACKWARD_PITCH], float* gates, float2 (&sums)[4], const float (&dh)[2][4],
    const Gates& given, const Lane& me, long long first, int rows, int C)
{
    UNROLL for (int i = 0; i < 4; i++) {
        int j = i / 2, e = i % 2 * 2, c = column_of(me, j), own = row_of(me, e);
        float2 s = given.s[i], t = given.t[i], da, db;
        da.x = gate_gradient(dh[j][e], s.x, t.x);
        da.y = gate_gradient(dh[j][e + 1], s.y, t.y);
        db.x = candidate_gradient(dh[j][e], s.x, t.x);
        db.y = candidate_gradient(dh[j][e + 1], s.y, t.y);
        sums[j] = make_float2(sums[j].x + da.x, sums[j].y + da.y);
        sums[2 + j] = make_float2(sums[2 + j].x + db.x, sums[2 + j].y + db.y);
        store_pair(gates, da.x, da.y, first + own, c, rows, C, 2 * C);
        store_pair(gates + C, db.x, db.y, first + own, c, rows, C, 2 * C);
        if (c >= C) continue;
        store_factors(&factors[own][c], da.x, da.y);
        store_factors(&factors[own][C + c], db.x, db.y);
    }
}

// Overwrites dh, the gradient of the last state, with that of the first; gates, s and t, with da
// and db; and partial[chunk] with their sums over the chunk's rows and all turns.
// Launch: block 256, grid chunks, as gated_loop_forward.
extern "C" __global__ void __launch_bounds__(256) gated_loop_backward(
    float* __restrict__ dh, float* __restrict__ gates, float* __restrict__ partial,
    const float* __restrict__ weight, int rows, int C, int turns, int groups)
{
    __shared__ __align__(16) BackwardWork w;
    Lane me = lane_of(C);
    Weights<MOST / 8, 2> weights;
    load_backward(weights, weight, me, C);
    clear_shared(&w.gates[0][0][0], 2 * ROWS * BACKWARD_PITCH);
    float2 sums[4] = {};  // da of both tiles, then db
    for (int group = 0; group < groups; group++) {
        long long first = ((long long)blockIdx.x * groups + group) * ROWS, size = 2LL * rows * C;
        float d[2][4];  // dh
        UNROLL for (int i = 0; i < 4; i++) {
            int j = i / 2, e = i % 2 * 2;
            float2 g = load_pair(dh, first + row_of(me, e), column_of(me, j), rows, C, C);
            d[j][e] = g.x;
            d[j][e + 1] = g.y;
        }
        Gates given = load_gates(gates + (turns - 1) * size, me, first, rows, C);
        for (int turn = turns - 1; turn >= 0; turn--) {
            float(*factors)[BACKWARD_PITCH] = w.gates[turn % 2];
            write_gates(factors, gates + turn * size, sums, d, given, me, first, rows, C);
            if (turn > 0) given = load_gates(gates + (turn - 1) * size, me, first, rows, C);
            __syncthreads();
            if (!me.works) continue;
            add_product(d, factors[0], BACKWARD_PITCH, weights, weight, me, 2 * C, C);
        }
        UNROLL for (int i = 0; i < 4; i++) {
            int j = i / 2, e = i % 2 * 2;
            long long row = first + row_of(me, e);
            store_pair(dh, d[j][e], d[j][e + 1], row, column_of(me, j), rows, C, C);
        }
        __syncthreads();  // the next group's first turn writes factors again
    }
    UNROLL for (int i = 0; i < 4; i++) {
        int c = column_of(me, i % 2);
        if (c < C) *reinterpret_cast<float2*>(&w.sums[me.g][i / 2 * C + c]) = sums[i];
    }
    __syncthreads();
    for (int c = threadIdx.x; c < 2 * C; c += THREADS) {
        float sum = 0.0f;
        UNROLL for (int g = 0; g < 8; g++) sum += w.sums[g][c];
        partial[(size_t)blockIdx.x * 2 * C + c] = sum;
    }
}
