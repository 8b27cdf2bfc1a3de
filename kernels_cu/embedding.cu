// Token and position embedding, float32: x[b,t] = token_table[tokens[b,t]] + position_table[t], or
// the token's alone.
//
//   dposition[t] = sum over b of dx[b,t]
//   dtoken[v]    = sum of dx[b,t] over the places b*T + t where tokens[b,t] == v
//
// The token gradient would be an atomic add for each place. Instead embedding_places lists each
// token's places, in order, and embedding_backward sums over the list: no atomics, the same bits
// every time. Of text, some lists are long (a sixth of all bytes are spaces) and most are short:
// `groups` threads share a list, and all rows that a thread reads are under way at once.
// Shapes: x, dx [B,T,C]; tokens [B,T] int32 in [0,V); token_table, dtoken [V,C]; position_table,
// dposition [T,C]; places [B*T] int32; begin [V+1] int32 (token v's places are places[begin[v] ..
// begin[v+1])).

#include "common/quad.cuh"    // quads
#include "common/unroll.cuh"  // UNROLL

#define PLACES_THREADS 128
#define SLAB 8       // quads of a row that a block covers
#define LISTS 32     // threads of a block for each of them
#define READ_AHEAD 8 // rows that a thread reads before it adds the first

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

// Overwrites places and begin.
// Launch: block 128, grid V: a block owns one token. Its threads count, in their shares of the
// places, the smaller tokens, after whose places the list starts, and the token itself; then each
// writes its places behind those of the threads before it.
extern "C" __global__ void __launch_bounds__(128) embedding_places(
    int* __restrict__ places, int* __restrict__ begin, const int* __restrict__ tokens, int count,
    int V)
{
    __shared__ int smaller[PLACES_THREADS];
    __shared__ int equal[PLACES_THREADS];
    int v = blockIdx.x, share = (count + PLACES_THREADS - 1) / PLACES_THREADS;
    int first = threadIdx.x * share, last = first + share < count ? first + share : count;
    int below = 0, own = 0;
    for (int top = first; top < last; top += READ_AHEAD) {
        int found[READ_AHEAD];
        UNROLL for (int u = 0; u < READ_AHEAD; u++) found[u] = top + u < last ? tokens[top + u] : V;
        UNROLL for (int u = 0; u < READ_AHEAD; u++) {
            below += found[u] < v;
            own += found[u] == v;
        }
    }
    smaller[threadIdx.x] = below;
    equal[threadIdx.x] = own;
    __syncthreads();
    if (threadIdx.x > 0 && own == 0) return;

    int start = 0, next = 0;
    UNROLL for (int t = 0; t < PLACES_THREADS; t++) {
        start += smaller[t];
        next += t < threadIdx.x ? equal[t] : 0;
    }
    if (threadIdx.x == 0) {
        begin[v] = start;
        if (v == V - 1) begin[V] = count;
    }
    for (int i = first; i < last && own > 0; i++) {
        if (tokens[i] != v) continue;
        places[start + next++] = i;
        own--;
    }
}

// The sum of dx, at `dx` in row 0, over rows row_of(p), p = first, first + step ... before `last`.
template <class RowOf>
__device__ __forceinline__ float4 sum_of_rows(
    const float* dx, int first, int last, int step, int C, int valid, RowOf row_of)
{
    float4 sum = same_quad(0.0f);
    for (int top = first; top < last; top += READ_AHEAD * step) {
        long long rows[READ_AHEAD];
        float4 q[READ_AHEAD];
        UNROLL for (int u = 0; u < READ_AHEAD; u++) {
            int p = top + u * step;
            rows[u] = p < last ? row_of(p) : -1;
        }
        UNROLL for (int u = 0; u < READ_AHEAD; u++) {
            q[u] = rows[u] >= 0 ? load_quad(dx + rows[u] * C, valid) : same_quad(0.0f);
        }
        UNROLL for (int u = 0; u < READ_AHEAD; u++) sum = add_quad(sum, q[u]);
    }
    return sum;
}

// Overwrites dtoken and dposition, or adds to them where accumulate is 1; tokens that do not occur
// get 0. Without a dposition T is 0.
// Launch: block 256, grid (ceil((V+T)/(32/groups)), ceil(C/32)); groups, a power of two up to 32,
// threads share the rows of a list; their sums are added in order.
extern "C" __global__ void __launch_bounds__(256) embedding_backward(
    float* __restrict__ dtoken, float* __restrict__ dposition, const float* __restrict__ dx,
    const int* __restrict__ places, const int* __restrict__ begin, int V, int B, int T, int C,
    int groups, int accumulate)
{
    __shared__ float4 sums[LISTS][SLAB];
    int own = threadIdx.x % SLAB, slot = threadIdx.x / SLAB, group = slot % groups;
    int list = blockIdx.x * (LISTS / groups) + slot / groups;
    int c = (blockIdx.y * SLAB + own) * 4;
    bool exists = list < V + T && c < C;
    int valid = exists ? quad_valid(c, C) : 0;
    float4 sum = same_quad(0.0f);
    if (exists && list < V) {
        int first = begin[list] + group, last = begin[list + 1];
        sum = sum_of_rows(dx + c, first, last, groups, C, valid,
                          [&](int p) -> long long { return places[p]; });
    } else if (exists) {
        int t = list - V;
        sum = sum_of_rows(dx + c, group, B, groups, C, valid,
                          [&](int b) -> long long { return (long long)b * T + t; });
    }
    if (groups > 1) {
        sums[slot][own] = sum;
        __syncthreads();
    }
    if (!exists || group > 0) return;
    for (int other = 1; other < groups; other++) sum = add_quad(sum, sums[slot + other][own]);
    float* to = (list < V ? dtoken + (size_t)list * C : dposition + (size_t)(list - V) * C) + c;
    if (accumulate) sum = add_quad(load_quad(to, valid), sum);
    store_quad(to, sum, valid);
}
