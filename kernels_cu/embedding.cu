// Token and position embedding, float32: x[b,t] = token_table[tokens[b,t]] + position_table[t], or
// the token's alone.
//
//   dposition[t] = sum over b of dx[b,t]
//   dtoken[v]    = sum of dx[b,t] over the places b*T + t where tokens[b,t] == v
//
// The token gradient would be an atomic add for each place. Instead the places are put in the order
// of their tokens (embedding_order), the ordered places are cut into windows of eight, and each
// window sums its runs of one token (embedding_windows): as much work for every thread whatever the
// text, of which a sixth may be spaces. A run within one window is a row of dtoken; of one that
// goes on the sums wait, and embedding_finish adds them in order. No atomics, the same bits always.
// Shapes: N = B*T; x, dx [B,T,C]; tokens [B,T] int32 in [0,V); token_table, dtoken [V,C];
// position_table, dposition [T,C]; order [2,N] int32: the places, and their tokens; begin [V+1]
// int32: token v's places are order[0][begin[v] .. begin[v+1]); partial [N/8 + 1, 2, C]: of each
// window the sum of the run that came in, and of the run that goes out.

#include "common/quad.cuh"    // quads
#include "common/unroll.cuh"  // UNROLL, IN_FLIGHT

#define LANES 32     // quads of a row that a block covers, next to each other
#define SLOTS 8      // threads of a block for each of them
#define WINDOW 8     // places of a window, all under way at once
#define READ_AHEAD 8 // rows that a thread reads before it adds the first
#define TILE 4096    // tokens of embedding_order in shared memory
#define MOST_LISTS 64  // of a block of embedding_finish
#define PAST 0x7fffffff  // as a token: behind all others

// Overwrites x. position_table may be null: then nothing is added.
// Launch: block 128, grid (ceil(B*T/4), ceil(C/128)); four channels a thread, four places a block.
extern "C" __global__ void __launch_bounds__(128) embedding_forward(
    float* __restrict__ x, const int* __restrict__ tokens, const float* __restrict__ token_table,
    const float* __restrict__ position_table, int B, int T, int C)
{
    long long place = (long long)blockIdx.x * 4 + threadIdx.x / 32;
    int c = (int)(blockIdx.y * 32 + threadIdx.x % 32) * 4;
    if (place >= (long long)B * T || c >= C) return;
    int valid = quad_valid(c, C);
    float4 token = load_quad(token_table + (size_t)tokens[place] * C + c, valid);
    if (position_table) {
        token = add_quad(token, load_quad(position_table + (size_t)(place % T) * C + c, valid));
    }
    store_quad(x + place * C + c, token, valid);
}

// Overwrites order: a place goes where its rank is, the number of smaller tokens, and of equal ones
// before it. N*N comparisons: at 8 192 places they take about as long as reading the tokens.
// Launch: block 256, grid ceil(N/32): 32 places a block, and eight threads share the comparisons of
// a place, so that a warp reads one token of the tile at a time.
extern "C" __global__ void __launch_bounds__(256) embedding_order(
    int* __restrict__ order, const int* __restrict__ tokens, int count)
{
    __shared__ int4 tile[TILE / 4];
    __shared__ int ranks[SLOTS][LANES];
    int lane = threadIdx.x % LANES, share = threadIdx.x / LANES;
    int first = blockIdx.x * LANES, place = first + lane;
    int own = place < count ? tokens[place] : 0, rank = 0;
    for (int top = 0; top < count; top += TILE) {
        int* to = reinterpret_cast<int*>(tile);
        __syncthreads();  // the tile before is compared
        UNROLL for (int u = 0; u < TILE / 256; u++) {
            int i = u * 256 + threadIdx.x;
            to[i] = top + i < count ? tokens[top + i] : PAST;
        }
        __syncthreads();
        int quads = ((count - top < TILE ? count - top : TILE) + 3) / 4;
        IN_FLIGHT for (int i = share; i < quads; i += SLOTS) {
            int limit = own + (top + 4 * i < first);  // before us equal ones count as well
            int4 found = tile[i];
            rank += (found.x < limit) + (found.y < limit) + (found.z < limit) + (found.w < limit);
        }
    }
    for (int other = first + share; other < place && place < count; other += SLOTS) {
        rank += tokens[other] == own;
    }
    ranks[share][lane] = rank;
    __syncthreads();
    if (share > 0 || place >= count) return;
    UNROLL for (int other = 1; other < SLOTS; other++) rank += ranks[other][lane];
    order[rank] = place;
    order[(size_t)count + rank] = own;
}

// Sets a quad of a gradient, or adds to it.
__device__ __forceinline__ void settle(float* to, float4 sum, int valid, int accumulate)
{
    if (accumulate) sum = add_quad(load_quad(to, valid), sum);
    store_quad(to, sum, valid);
}

// The sums of a block's slots, in order; right for slot 0 alone. All threads of the block call it.
__device__ __forceinline__ float4 sum_of_slots(float4 (*sums)[LANES], float4 sum)
{
    int lane = threadIdx.x % LANES, slot = threadIdx.x / LANES;
    sums[slot][lane] = sum;
    __syncthreads();
    if (slot == 0) {
        UNROLL for (int other = 1; other < SLOTS; other++) sum = add_quad(sum, sums[other][lane]);
    }
    return sum;
}

// The sum of the rows at `at(i)`, i = first, first + step ... before `last`.
template <bool WHOLE, class At>
__device__ __forceinline__ float4 sum_of_rows(int first, int last, int step, int valid, At at)
{
    float4 sum = same_quad(0.0f);
    for (int top = first; top < last; top += READ_AHEAD * step) {
        float4 q[READ_AHEAD];
        UNROLL for (int u = 0; u < READ_AHEAD; u++) {
            int i = top + u * step;
            q[u] = quad_or_zeros<WHOLE>(at(i < last ? i : first), i < last ? valid : 0);
        }
        UNROLL for (int u = 0; u < READ_AHEAD; u++) sum = add_quad(sum, q[u]);
    }
    return sum;
}

// A slot's share of dposition[t], with dx at row t of the first sequence.
template <bool WHOLE>
__device__ __forceinline__ float4 sum_of_batch(
    const float* dx, int slot, int B, int T, int C, int valid)
{
    return sum_of_rows<WHOLE>(
        slot, B, SLOTS, valid, [&](int b) { return dx + (size_t)b * T * C; });
}

// The rows of a window, zeros behind the last place.
template <bool WHOLE>
__device__ __forceinline__ void load_window(
    float4 (&rows)[WINDOW], const float* dx, const int* order, int first, int count, int C,
    int valid)
{
    int places[WINDOW];
    UNROLL for (int u = 0; u < WINDOW; u++) places[u] = first + u < count ? order[first + u] : 0;
    UNROLL for (int u = 0; u < WINDOW; u++) {
        rows[u] = quad_or_zeros<WHOLE>(
            dx + (size_t)places[u] * C, first + u < count ? valid : 0);
    }
}

// The runs of one window: to dtoken what begins and ends in it, the others to partial. `tokens[u]`
// is the token of place u - 1 of the window, V behind the last place and -1 before the first.
__device__ __forceinline__ void sum_runs(
    float* dtoken, float* partial, const float4* rows, const int* tokens, int V, int C, int valid,
    int accumulate)
{
    float4 sum = rows[0];
    bool came_in = tokens[0] == tokens[1];
    UNROLL for (int u = 1; u <= WINDOW; u++) {
        int token = tokens[u];
        bool goes_out = u == WINDOW && tokens[u + 1] == token;
        if (token < V && (u == WINDOW || tokens[u + 1] != token)) {
            if (came_in || goes_out) {
                store_quad(partial + (came_in ? 0 : C), sum, valid);
            } else {
                settle(dtoken + (size_t)token * C, sum, valid, accumulate);
            }
            came_in = false;
            sum = same_quad(0.0f);
        }
        if (u < WINDOW) sum = add_quad(sum, rows[u]);
    }
}

// Overwrites begin, partial, dposition, and the rows of dtoken whose places are in one window; adds
// to dposition and to those rows where accumulate is 1. Without a dposition T is 0.
// Launch: block 256, grid (windows / 8 rounded up + T, ceil(C/128)), windows = N/8 + 1: eight
// windows a block, a window a warp; behind them a block a position, whose slots share the batch.
extern "C" __global__ void __launch_bounds__(256) embedding_windows(
    float* __restrict__ dtoken, float* __restrict__ dposition, float* __restrict__ partial,
    int* __restrict__ begin, const float* __restrict__ dx, const int* __restrict__ order, int count,
    int V, int B, int T, int C, int accumulate)
{
    __shared__ float4 sums[SLOTS][LANES];
    int slot = threadIdx.x / LANES, lane = threadIdx.x % LANES;
    int c = (int)(blockIdx.y * LANES + lane) * 4, valid = c < C ? quad_valid(c, C) : 0;
    bool whole = C % 4 == 0 && quad_aligned(dx);
    int windows = count / WINDOW + 1, blocks = (windows + SLOTS - 1) / SLOTS;
    int t = (int)blockIdx.x - blocks;
    if (t >= 0) {
        const float* row = dx + (size_t)t * C + c;
        float4 sum = whole ? sum_of_batch<true>(row, slot, B, T, C, valid)
                           : sum_of_batch<false>(row, slot, B, T, C, valid);
        sum = sum_of_slots(sums, sum);
        if (slot == 0 && valid) settle(dposition + (size_t)t * C + c, sum, valid, accumulate);
        return;
    }

    int window = blockIdx.x * SLOTS + slot, first = window * WINDOW;
    if (window >= windows) return;
    int tokens[WINDOW + 2];
    UNROLL for (int u = 0; u < WINDOW + 2; u++) {
        int p = first + u - 1;
        tokens[u] = p < 0 ? -1 : p < count ? order[(size_t)count + p] : V;
    }
    if (valid) {
        float4 rows[WINDOW];
        if (whole) {
            load_window<true>(rows, dx + c, order, first, count, C, valid);
        } else {
            load_window<false>(rows, dx + c, order, first, count, C, valid);
        }
        sum_runs(dtoken + c, partial + (size_t)window * 2 * C + c, rows, tokens, V, C, valid,
                 accumulate);
    }
    if (blockIdx.y > 0) return;
    for (int u = 0; u < WINDOW; u++) {  // tokens that do not occur begin where the next one does
        if (first + u > count) break;
        for (int v = tokens[u] + 1 + lane; v <= tokens[u + 1]; v += LANES) begin[v] = first + u;
    }
}

// A token's places as windows: the first, and how many.
struct Run {
    int first, windows;
};

__device__ __forceinline__ Run run_of(int begin, int end)
{
    int first = begin / WINDOW;
    return {first, end > begin ? (end - 1) / WINDOW - first + 1 : 0};
}

// The sum of the parts of a run, `slot`, slot + step ...: what goes out of its first window, and
// what came into the others.
template <bool WHOLE>
__device__ __forceinline__ float4 sum_of_parts(
    const float* partial, Run run, int slot, int step, int C, int valid)
{
    return sum_of_rows<WHOLE>(slot, run.windows, step, valid, [&](int i) {
        return partial + (2 * (size_t)(run.first + i) + (i == 0)) * C;
    });
}

// Overwrites the rows of dtoken whose places are in several windows, or adds to them where
// accumulate is 1; without it tokens that do not occur get 0.
// Launch: block 256, grid (ceil(V/lists), ceil(C/128)); lists: rows a block, up to 64. A thread
// adds up to eight sums; those of longer lists the eight slots share, and add theirs in order.
extern "C" __global__ void __launch_bounds__(256) embedding_finish(
    float* __restrict__ dtoken, const float* __restrict__ partial, const int* __restrict__ begin,
    int V, int C, int lists, int accumulate)
{
    __shared__ int bounds[MOST_LISTS + 1];
    __shared__ float4 sums[SLOTS][LANES];
    int slot = threadIdx.x / LANES, lane = threadIdx.x % LANES, top = blockIdx.x * lists;
    int c = (int)(blockIdx.y * LANES + lane) * 4, valid = c < C ? quad_valid(c, C) : 0;
    int own = V - top < lists ? V - top : lists;
    bool whole = C % 4 == 0 && quad_aligned(partial);
    if ((int)threadIdx.x <= own) bounds[threadIdx.x] = begin[top + threadIdx.x];
    __syncthreads();

    bool shared = false;
    for (int list = slot; list < own; list += SLOTS) {
        Run run = run_of(bounds[list], bounds[list + 1]);
        shared |= run.windows > READ_AHEAD;
        bool here = run.windows == 0 ? !accumulate : run.windows > 1 && run.windows <= READ_AHEAD;
        if (!valid || !here) continue;
        float4 sum = whole ? sum_of_parts<true>(partial + c, run, 0, 1, C, valid)
                           : sum_of_parts<false>(partial + c, run, 0, 1, C, valid);
        settle(dtoken + (size_t)(top + list) * C + c, sum, valid, accumulate);
    }
    if (!__syncthreads_or(shared)) return;
    for (int list = 0; list < own; list++) {
        Run run = run_of(bounds[list], bounds[list + 1]);
        if (run.windows <= READ_AHEAD) continue;
        float4 sum = whole ? sum_of_parts<true>(partial + c, run, slot, SLOTS, C, valid)
                           : sum_of_parts<false>(partial + c, run, slot, SLOTS, C, valid);
        sum = sum_of_slots(sums, sum);
        if (slot == 0 && valid) {
            settle(dtoken + (size_t)(top + list) * C + c, sum, valid, accumulate);
        }
        __syncthreads();  // before the next list's sums
    }
}
