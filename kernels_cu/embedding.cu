// Token and position embedding, float32: x[b,t] = token_table[tokens[b,t]] + position_table[t], or
// the token's alone.
//
//   dposition[t] = sum over b of dx[b,t]
//   dtoken[v]    = sum of dx[b,t] over the places where tokens[b,t] == v, in order of b*T + t
//
// The token gradient would be an atomic add for each place. Instead embedding_places lists each
// token's places, in order, and embedding_backward_token sums over the list: no atomics, the same
// bits every time.
// Shapes: x, dx [B,T,C]; tokens [B,T] int32 in [0,V); token_table, dtoken [V,C]; position_table,
// dposition [T,C]; places [B*T] int32; begin [V+1] int32 (token v's places are places[begin[v] ..
// begin[v+1])).

#include "common/quad.cuh"  // quads

// Overwrites x. position_table may be null: then nothing is added.
// Launch: block 128, grid ceil(B*T*ceil(C/4)/128); four channels a thread.
extern "C" __global__ void __launch_bounds__(128) embedding_forward(
    float* __restrict__ x, const int* __restrict__ tokens, const float* __restrict__ token_table,
    const float* __restrict__ position_table, int B, int T, int C)
{
    int quads = (C + 3) / 4;
    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x, place = i / quads;
    if (place >= (long long)B * T) return;
    int c = (int)(i - place * quads) * 4, valid = quad_valid(c, C);
    float4 token = load_quad(token_table + (size_t)tokens[place] * C + c, valid);
    if (position_table) {
        token = add_quad(token, load_quad(position_table + (size_t)(place % T) * C + c, valid));
    }
    store_quad(x + place * C + c, token, valid);
}

// Overwrites places and begin.
// Launch: block 32, grid ceil(V/32); a thread owns one token and walks all places twice.
// A token's list starts after the places of all smaller tokens, which the first walk counts: no
// scan, no barrier.
extern "C" __global__ void __launch_bounds__(32) embedding_places(
    int* __restrict__ places, int* __restrict__ begin, const int* __restrict__ tokens, int count,
    int V)
{
    int v = blockIdx.x * blockDim.x + threadIdx.x;
    if (v >= V) return;
    int smaller = 0;
    for (int i = 0; i < count; i++) smaller += tokens[i] < v;
    begin[v] = smaller;
    if (v == V - 1) begin[V] = count;
    int next = smaller;
    for (int i = 0; i < count; i++)
        if (tokens[i] == v) places[next++] = i;
}

// Overwrites dtoken, or adds to it where accumulate is 1; tokens that do not occur get 0.
// Launch: block 128, grid ceil(V*ceil(C/4)/128); a thread owns four channels of one token.
extern "C" __global__ void __launch_bounds__(128) embedding_backward_token(
    float* __restrict__ dtoken, const float* __restrict__ dx, const int* __restrict__ places,
    const int* __restrict__ begin, int V, int C, int accumulate)
{
    int quads = (C + 3) / 4;
    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x, v = i / quads;
    if (v >= V) return;
    int c = (int)(i - v * quads) * 4, valid = quad_valid(c, C);
    float* to = dtoken + v * C + c;
    float4 sum = accumulate ? load_quad(to, valid) : same_quad(0.0f);
    for (int p = begin[v]; p < begin[v + 1]; p++) {
        sum = add_quad(sum, load_quad(dx + (size_t)places[p] * C + c, valid));
    }
    store_quad(to, sum, valid);
}

// Overwrites dposition, or adds to it where accumulate is 1.
// Launch: block 128, grid ceil(T*ceil(C/4)/128); four channels a thread, summed over the batch in
// order.
extern "C" __global__ void __launch_bounds__(128) embedding_backward_position(
    float* __restrict__ dposition, const float* __restrict__ dx, int B, int T, int C,
    int accumulate)
{
    int quads = (C + 3) / 4;
    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x, t = i / quads;
    if (t >= T) return;
    int c = (int)(i - t * quads) * 4, valid = quad_valid(c, C);
    float* to = dposition + t * C + c;
    float4 sum = accumulate ? load_quad(to, valid) : same_quad(0.0f);
    for (int b = 0; b < B; b++) {
        sum = add_quad(sum, load_quad(dx + ((size_t)b * T + t) * C + c, valid));
    }
    store_quad(to, sum, valid);
}
