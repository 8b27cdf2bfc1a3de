// Linear layers in bfloat16 by tensor cores, for products so small that a library's launches and
// the passes over its results cost more than they do: what comes before and after is done in
// registers.
//
//   y[m,n] = sum over k of x[m,k] weight[n,k], plus bias[n] where there is one
//   dx[m,k] = sum over n of dy[m,n] weight[n,k]
//   dweight[n,k] = sum over m of dy[m,n] x[m,k],   dbias[n] = sum over m of dy[m,n]
//
// Shapes: x, dx [M,K]; weight, dweight [N,K]; y, dy [M,N]; bias, dbias [N]. bfloat16 but for
// dweight, dbias, the residual stream and what is named wide: those are float. A bias has the type
// of the result that it is added to. Sums are float; a result is rounded once, after all that is
// fused with it. K and N are multiples of 8; every bfloat16 matrix begins at a multiple of 16
// bytes. The bits depend on inputs, sizes and tiles alone.
// Launch: block 128; grid of the forward kernels (ceil(N/TILE_N), ceil(M/TILE_M)). TILE_M and
// TILE_N are defines, multiples of 32.

#include "common/gelu.cuh"      // gates and slopes
#include "common/gemm_mma.cuh"  // tiles of products
#include "common/mma.cuh"       // pairs and quads of bfloat16
#include "common/quad.cuh"      // quads

__device__ __forceinline__ void store_packed(__nv_bfloat16* to, uint2 packed)
{
    *reinterpret_cast<uint2*>(to) = packed;
}

__device__ __forceinline__ float4 gelu_slopes(uint2 q)
{
    return make_float4(
        narrow_gelu_slope(low_of(q.x)), narrow_gelu_slope(high_of(q.x)),
        narrow_gelu_slope(low_of(q.y)), narrow_gelu_slope(high_of(q.y)));
}

__device__ __forceinline__ float4 gelu_gates(float4 q)
{
    return make_float4(
        narrow_gelu_gate(q.x), narrow_gelu_gate(q.y), narrow_gelu_gate(q.z), narrow_gelu_gate(q.w));
}

__device__ __forceinline__ float4 same(float4 q)
{
    return q;
}

// ---- forward ----
// y = x weight^T, plus bias unless it is null; store(at, make(quad)) is called for each four
// neighbours of y, `at` elements from its beginning.
template <class Bias, class Make, class Store>
__device__ __forceinline__ void forward(
    const __nv_bfloat16* x, const __nv_bfloat16* weight, const Bias* bias, int M, int N, int K,
    Make make, Store store)
{
    __shared__ Stages shared;
    Operand a = {x, K, (int)blockIdx.y * TILE_M, M}, b = {weight, K, (int)blockIdx.x * TILE_N, N};
    Sums sums;
    multiply_tiles<false, false>(sums, shared, a, b, 0, K, bias);
    typedef decltype(make(float4())) Made;  // NVRTC takes a generic lambda for a host function
    for_each_quad(sums, a, b, make, [&](int row, int column, Made made) {
        store((size_t)row * N + column, made);
    });
}

// Overwrites y.
extern "C" __global__ void __launch_bounds__(128) linear_mma_forward(
    __nv_bfloat16* __restrict__ y, const __nv_bfloat16* __restrict__ x,
    const __nv_bfloat16* __restrict__ weight, int M, int N, int K)
{
    forward(x, weight, (const float*)nullptr, M, N, K, pack_quad, [&](size_t at, uint2 q) {
        store_packed(y + at, q);
    });
}

// Overwrites y_wide.
extern "C" __global__ void __launch_bounds__(128) linear_mma_forward_wide(
    float* __restrict__ y_wide, const __nv_bfloat16* __restrict__ x,
    const __nv_bfloat16* __restrict__ weight, int M, int N, int K)
{
    forward(x, weight, (const float*)nullptr, M, N, K, same, [&](size_t at, float4 q) {
        store_quad(y_wide + at, q, 4);
    });
}

// Overwrites y, bias added.
extern "C" __global__ void __launch_bounds__(128) linear_mma_forward_bias(
    __nv_bfloat16* __restrict__ y, const __nv_bfloat16* __restrict__ x,
    const __nv_bfloat16* __restrict__ weight, const __nv_bfloat16* __restrict__ bias, int M, int N,
    int K)
{
    forward(x, weight, bias, M, N, K, pack_quad, [&](size_t at, uint2 q) {
        store_packed(y + at, q);
    });
}

struct Activated {
    uint2 active, hidden;
};

// Overwrites hidden = y, bias added, which backward needs, and active = gelu(hidden), computed
// before hidden is rounded.
extern "C" __global__ void __launch_bounds__(128) linear_mma_forward_gelu(
    __nv_bfloat16* __restrict__ active, __nv_bfloat16* __restrict__ hidden,
    const __nv_bfloat16* __restrict__ x, const __nv_bfloat16* __restrict__ weight,
    const __nv_bfloat16* __restrict__ bias, int M, int N, int K)
{
    forward(
        x, weight, bias, M, N, K,
        [](float4 q) {
            Activated made = {pack_quad(multiply_quad(q, gelu_gates(q))), pack_quad(q)};
            return made;
        },
        [&](size_t at, Activated q) {
            store_packed(hidden + at, q.hidden);
            store_packed(active + at, q.active);
        });
}

// Overwrites out = residual + y, bias added; out [M,N] may be residual.
extern "C" __global__ void __launch_bounds__(128) linear_mma_forward_residual(
    float* out, const __nv_bfloat16* __restrict__ x, const __nv_bfloat16* __restrict__ weight,
    const float* __restrict__ bias, const float* residual, int M, int N, int K)
{
    __shared__ Stages shared;
    Operand a = {x, K, (int)blockIdx.y * TILE_M, M}, b = {weight, K, (int)blockIdx.x * TILE_N, N};
    auto before = load_quads(a, b, [&](int row, int column) {
        return load_quad(residual + (size_t)row * N + column, 4);
    });
    Sums sums;
    multiply_tiles<false, false>(sums, shared, a, b, 0, K, bias);
    for_each_quad(
        sums, a, b, before, [](float4 q, float4 old) { return add_quad(old, q); },
        [&](int row, int column, float4 q) {
            store_quad(out + (size_t)row * N + column, q, 4);
        });
}

// ---- backward ----
__device__ __forceinline__ int ceil_div(int a, int b)
{
    return (a + b - 1) / b;
}

// dx, in blocks along K first; load and make as load_quads and for_each_quad call them.
template <class Load, class Make>
__device__ __forceinline__ void backward_input(
    Stages& shared, __nv_bfloat16* dx, const __nv_bfloat16* dy, const __nv_bfloat16* weight, int M,
    int N, int K, int block, Load load, Make make)
{
    int across = ceil_div(K, TILE_N);
    Operand a = {dy, N, block / across * TILE_M, M}, b = {weight, K, block % across * TILE_N, K};
    auto more = load_quads(a, b, load);
    Sums sums;
    multiply_tiles<false, true>(sums, shared, a, b, 0, N);
    for_each_quad(sums, a, b, more, make, [&](int row, int column, uint2 q) {
        store_packed(dx + (size_t)row * K + column, q);
    });
}

// dweight and dbias of rows split*chunk .. +chunk, in blocks along K first, then along N, then
// splits. Who owns the first columns of dweight owns dbias, too.
__device__ __forceinline__ void backward_weight(
    Stages& shared, float* dweight, float* dbias, const __nv_bfloat16* dy, const __nv_bfloat16* x,
    int M, int N, int K, int chunk, int block)
{
    int across = ceil_div(K, TILE_N), tiles = across * ceil_div(N, TILE_M);
    int split = block / tiles, tile = block % tiles;
    Operand a = {dy, N, tile / across * TILE_M, N}, b = {x, K, tile % across * TILE_N, K};
    int first = split * chunk, end = M - first < chunk ? M : first + chunk;
    size_t slab = split * ((size_t)N * K + N);
    bool add_rows = dbias && b.first == 0;
    Sums sums;
    bool warp_adds = add_rows && warp_column() == 0;
    multiply_tiles<true, true>(sums, shared, a, b, first, end, (const float*)nullptr, warp_adds);
    for_each_quad(sums, a, b, same, [&](int row, int column, float4 quad) {
        store_quad(dweight + slab + (size_t)row * K + column, quad, 4);
    });
    if (add_rows) for_each_row(sums, a, [&](int row, float sum) { dbias[slab + row] = sum; });
}

// Both gradients at once, for they do not wait for each other. Blocks up to input_blocks =
// ceil(K/TILE_N)*ceil(M/TILE_M), or 0, overwrite dx; the others, ceil(K/TILE_N)*ceil(N/TILE_M)
// times splits = max(1, ceil(M/chunk)), or none, dweight and dbias (unless null). chunk: a multiple
// of 8.
//   splits == 1: dweight and dbias are the results;
//   splits > 1: they point into a workspace [splits,N*K+N], dbias = dweight + N*K, for
//   linear_mma_reduce. A fixed order of addition and no atomics: the same bits every time.
extern "C" __global__ void __launch_bounds__(128) linear_mma_backward(
    __nv_bfloat16* __restrict__ dx, float* __restrict__ dweight, float* __restrict__ dbias,
    const __nv_bfloat16* __restrict__ dy, const __nv_bfloat16* __restrict__ x,
    const __nv_bfloat16* __restrict__ weight, int M, int N, int K, int chunk, int input_blocks)
{
    __shared__ Stages shared;
    int block = blockIdx.x;
    if (block >= input_blocks) {
        backward_weight(shared, dweight, dbias, dy, x, M, N, K, chunk, block - input_blocks);
        return;
    }
    backward_input(
        shared, dx, dy, weight, M, N, K, block, [](int, int) { return Nothing(); },
        [](float4 q, Nothing) { return pack_quad(q); });
}

// The same for a layer whose input is x = gelu(hidden): overwrites
// dhidden [M,K] = dx gelu'(hidden).
extern "C" __global__ void __launch_bounds__(128) linear_mma_backward_gelu(
    __nv_bfloat16* __restrict__ dhidden, float* __restrict__ dweight, float* __restrict__ dbias,
    const __nv_bfloat16* __restrict__ dy, const __nv_bfloat16* __restrict__ x,
    const __nv_bfloat16* __restrict__ weight, const __nv_bfloat16* __restrict__ hidden, int M,
    int N, int K, int chunk, int input_blocks)
{
    __shared__ Stages shared;
    int block = blockIdx.x;
    if (block >= input_blocks) {
        backward_weight(shared, dweight, dbias, dy, x, M, N, K, chunk, block - input_blocks);
        return;
    }
    backward_input(
        shared, dhidden, dy, weight, M, N, K, block,
        [&](int row, int column) {
            return *reinterpret_cast<const uint2*>(hidden + (size_t)row * K + column);
        },
        [](float4 q, uint2 at) { return pack_quad(multiply_quad(q, gelu_slopes(at))); });
}

// dweight[i] = (accumulate ? dweight[i] : 0) + partial[0][i] + partial[1][i] + ...; dbias, unless
// null, from what follows the N*K of dweight in each slab. partial [splits,N*K+N].
// Launch: block 128; grid ceil((N*K+N)/512): four sums a thread, each in the order of the splits.
extern "C" __global__ void __launch_bounds__(128) linear_mma_reduce(
    float* __restrict__ dweight, float* __restrict__ dbias, const float* __restrict__ partial,
    int N, int K, int splits, int accumulate)
{
    long long weights = (long long)N * K, count = weights + N;
    long long first = ((long long)blockIdx.x * blockDim.x + threadIdx.x) * 4;
    float* to = first < weights ? dweight + first : dbias + (first - weights);
    if (first >= count || (first >= weights && !dbias)) return;
    float4 sum = accumulate ? load_quad(to, 4) : same_quad(0.0f);
    for (int z = 0; z < splits; z++) sum = add_quad(sum, load_quad(partial + z * count + first, 4));
    store_quad(to, sum, 4);
}
