// Softmax cross-entropy over thousands of classes, a block a row. cross_entropy.cu has formulas,
// shapes, and the kernels for fewer classes.
//
// A row is read from memory once: asynchronous copies bring its first `kept` vectors of 16 bytes to
// shared memory, several of each thread under way, and what no longer fits is read twice. A thread
// reads the copies that it started itself: only the row's largest logit and its sum pass a barrier.
// Rows may begin at any element: what lies in front of the first vector and behind the last is one
// element each of the first threads.
// An exponential is two instructions and the unit that makes it does 16 a cycle: at 50 304 classes
// and two of each it is 58% busy beside the memory, which is why there are not three.

#include "common/act.cuh"          // act_t
#include "common/approximate.cuh"  // power_of_two
#include "common/mma.cuh"          // asynchronous copies
#include "common/vector.cuh"       // 16 bytes of act_t

#define THREADS 512
#define WARPS (THREADS / 32)
#define TURN (2 * THREADS)  // vectors that the block takes at once, two a thread
#define AHEAD 4             // turns under way
#define LOWEST -3.0e38f     // below every logit; NVRTC has no infinity constant
#define LOG2_E 1.4426950408889634f

// The largest of some logits, and the sum of exp(logit - largest).
struct Softmax {
    float peak, sum;
};

struct WideRow {
    act_t* logits;
    uint4* first;        // of the whole vectors
    int head, vectors;   // elements before them; how many there are
    int edge;            // this thread's element outside of them, -1 for none
};

__device__ __forceinline__ WideRow wide_row(act_t* logits, int V)
{
    WideRow row;
    int gap = (int)(-(size_t)logits & 15) / (int)sizeof(act_t), t = threadIdx.x;
    row.logits = logits;
    row.head = gap < V ? gap : V;
    row.vectors = (V - row.head) / VECTOR_ELEMENTS;
    row.first = reinterpret_cast<uint4*>(logits + row.head);
    int middle = row.vectors * VECTOR_ELEMENTS, place = t < row.head ? t : t + middle;
    row.edge = place < V ? place : -1;
    return row;
}

// Whether this thread is the one that writes element `at`.
__device__ __forceinline__ bool is_owner(const WideRow& row, int at)
{
    int inside = at - row.head, vector = inside / VECTOR_ELEMENTS;
    if (inside < 0 || vector >= row.vectors) return at == row.edge;
    return vector % THREADS == threadIdx.x;
}

__device__ __forceinline__ float exponential(float x)
{
    return power_of_two(x * LOG2_E);
}

// Adds N logits; the sum follows the largest as it grows.
template <int N>
__device__ __forceinline__ void add_logits(Softmax* own, const float (&x)[N])
{
    float peak = own->peak, even = 0.0f, odd = 0.0f;
    UNROLL for (int i = 0; i < N; i++) peak = fmaxf(peak, x[i]);
    UNROLL for (int i = 0; i < N; i++) {
        float power = exponential(x[i] - peak);
        if (i % 2 == 0) {
            even += power;
        } else {
            odd += power;
        }
    }
    own->sum = fmaf(own->sum, exponential(own->peak - peak), even + odd);
    own->peak = peak;
}

// Adds this thread's two vectors of the turn that begins at `turn`, of `vectors` at `from`. WHOLE:
// the turn lies before their end.
template <bool WHOLE>
__device__ __forceinline__ void add_turn(Softmax* own, const uint4* from, int turn, int vectors)
{
    float x[2 * VECTOR_ELEMENTS];
    UNROLL for (int k = 0; k < 2; k++) {
        int v = turn + k * THREADS + threadIdx.x;
        if (WHOLE || v < vectors) {
            widen_vector(x + k * VECTOR_ELEMENTS, from[v]);
        } else {
            UNROLL for (int i = 0; i < VECTOR_ELEMENTS; i++) x[k * VECTOR_ELEMENTS + i] = LOWEST;
        }
    }
    add_logits(own, x);
}

// Starts this thread's copies of a turn of a row's `kept` vectors, and closes their batch.
__device__ __forceinline__ void start_turn(uint4* copies, const uint4* from, int turn, int kept)
{
    UNROLL for (int k = 0; k < 2; k++) {
        int v = turn + k * THREADS + threadIdx.x;
        if (v < kept) start_copy(shared_address(copies + v), from + v, true);
    }
    close_batch();
}

// The first copies of a row, all of a short one.
__device__ __forceinline__ void start_row(const WideRow& row, uint4* copies, int kept)
{
    UNROLL for (int k = 0; k < AHEAD; k++) start_turn(copies, row.first, k * TURN, kept);
}

// This thread's share of the row, the copies of whose first `kept` vectors are started.
__device__ __forceinline__ Softmax thread_softmax(const WideRow& row, uint4* copies, int kept)
{
    Softmax own = {LOWEST, 0.0f};
    float edge[1] = {row.edge < 0 ? LOWEST : widened(row.logits[row.edge])};
    int turn = 0, last = row.vectors;
    for (; turn + TURN <= kept; turn += TURN) {
        wait_for_batches<AHEAD - 1>();
        add_turn<true>(&own, copies, turn, kept);
        start_turn(copies, row.first, turn + AHEAD * TURN, kept);
    }
    if (turn < kept) {  // the last turn of a row that is kept whole
        wait_for_batches<0>();
        add_turn<false>(&own, copies, turn, kept);
        turn = last;
    }
    for (; turn + TURN <= last; turn += TURN) add_turn<true>(&own, row.first, turn, last);
    if (turn < last) add_turn<false>(&own, row.first, turn, last);
    add_logits(&own, edge);
    return own;
}

// Merges what the WIDTH lanes beside each other have: the same bits in all of them.
template <int WIDTH>
__device__ __forceinline__ Softmax lanes_softmax(Softmax own)
{
    float peak = own.peak;
    UNROLL for (int step = WIDTH / 2; step > 0; step /= 2) {
        peak = fmaxf(peak, __shfl_xor_sync(ALL_LANES, peak, step));
    }
    float sum = own.sum * exponential(own.peak - peak);
    UNROLL for (int step = WIDTH / 2; step > 0; step /= 2) {
        sum += __shfl_xor_sync(ALL_LANES, sum, step);
    }
    Softmax all = {peak, sum};
    return all;
}

// The row's, of what its threads have: the same bits in all of them.
__device__ __forceinline__ Softmax block_softmax(Softmax own)
{
    __shared__ Softmax warps[WARPS];
    own = lanes_softmax<32>(own);
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = own;
    __syncthreads();
    return lanes_softmax<WARPS>(warps[threadIdx.x % WARPS]);
}

// Turns the vectors first, first + THREADS ... of `vectors` at `from` into gradients, written at
// `to`.
__device__ __forceinline__ void write_gradients(
    uint4* to, const uint4* from, int first, int vectors, float peak, float factor)
{
    for (int v = first; v < vectors; v += THREADS) {
        float x[VECTOR_ELEMENTS];
        widen_vector(x, from[v]);
        UNROLL for (int i = 0; i < VECTOR_ELEMENTS; i++) x[i] = exponential(x[i] - peak) * factor;
        to[v] = rounded_vector(x);
    }
}

// Overwrites row_loss; logits are left alone.
// Launch: block 512, grid rows.
extern "C" __global__ void __launch_bounds__(512, 2) cross_entropy_wide_forward(
    float* __restrict__ row_loss, act_t* logits, const int* __restrict__ targets, int V)
{
    WideRow row = wide_row(logits + (size_t)blockIdx.x * V, V);
    Softmax all = block_softmax(thread_softmax(row, nullptr, 0));
    if (threadIdx.x > 0) return;
    float target = widened(row.logits[targets[blockIdx.x]]);
    row_loss[blockIdx.x] = logf(all.sum) + (all.peak - target);
}

// Overwrites row_loss, and turns logits into dlogits in place.
// Launch: block 512, grid rows, dynamic shared memory for `room` vectors of 16 bytes: as many as a
// row has, or a multiple of 1024.
extern "C" __global__ void __launch_bounds__(512, 2) cross_entropy_wide_forward_backward(
    float* __restrict__ row_loss, act_t* logits, const int* __restrict__ targets, int V, int room,
    float scale)
{
    extern __shared__ uint4 copies[];
    WideRow row = wide_row(logits + (size_t)blockIdx.x * V, V);
    int kept = row.vectors < room ? row.vectors : room;
    start_row(row, copies, kept);
    int target = targets[blockIdx.x];
    bool owner = is_owner(row, target);
    float target_logit = owner ? widened(row.logits[target]) : 0.0f;
    Softmax all = block_softmax(thread_softmax(row, copies, kept));

    float factor = scale / all.sum;
    int t = threadIdx.x;
    write_gradients(row.first, copies, t, kept, all.peak, factor);
    write_gradients(row.first, row.first, kept + t, row.vectors, all.peak, factor);
    if (row.edge >= 0) {
        float x = widened(row.logits[row.edge]);
        store_element(row.logits + row.edge, exponential(x - all.peak) * factor);
    }
    if (!owner) return;
    float share = exponential(target_logit - all.peak) * factor;
    store_element(row.logits + target, share - scale);
    row_loss[blockIdx.x] = logf(all.sum) + (all.peak - target_logit);
}
