// Linear layers in TF32 by tensor cores, one launch a layer each way: for products of a few hundred
// rows and columns, which lie in L2 and take as long as one waits for it.
//
//   y[m,n] = f(sum over k of x[m,k] weight[n,k] + bias[n]), f(z) = z or max(z, 0)
//   dz[m,n] = dy[m,n], or where f is max(z, 0): dy[m,n] where y[m,n] > 0, 0 elsewhere
//   dx[m,k] = sum over n of dz[m,n] weight[n,k]
//   dweight[n,k] = sum over m of dz[m,n] x[m,k],   dbias[n] = sum over m of dz[m,n]
//
// Shapes: x, dx [M,K]; weight, dweight [N,K]; y, dy [M,N]; bias, dbias [N]. All is float; products
// read their operands rounded to TF32, to nearest, and sum in float. dbias is of numbers that are
// not rounded. A NaN stays one. K is a multiple of 4; every matrix begins at a multiple of 16
// bytes. The bits depend on inputs and sizes alone.
// Launch: block 256.

#include "common/linear_tf32.cuh"  // tiles of products

#define THREADS (32 * WARPS)

__device__ __forceinline__ int ceil_div(int a, int b)
{
    return (a + b - 1) / b;
}

__device__ __forceinline__ float4 relu_quad(float4 q)
{
    return make_float4(
        q.x < 0.0f ? 0.0f : q.x, q.y < 0.0f ? 0.0f : q.y, q.z < 0.0f ? 0.0f : q.z,
        q.w < 0.0f ? 0.0f : q.w);
}

// ---- forward ----
template <bool RELU>
__device__ __forceinline__ void forward(
    float* y, const float* x, const float* weight, const float* bias, int M, int N, int K)
{
    __shared__ Room room;
    typedef Operand<2, false, true> Lines;
    Lines a = {x, K, (int)blockIdx.y * 16, M}, b = {weight, K, (int)blockIdx.x * 16, N};
    Slice<2, false, Lines, Lines> slice;
    slice.load(a, nullptr, b, slice.first_depth(), K);
    Place own = own_place(a, b);
    float4 add = load_valid<false>(bias + own.column, own.valid);
    Sums<Lines, Lines> sums = {};
    multiply_slices(sums, slice, a, nullptr, b, K);
    float4 z = add_quad(add_warps(room, sums), add);
    if (!own.valid) return;
    store_quad(y + (size_t)own.row * N + own.column, RELU ? relu_quad(z) : z, own.valid);
}

// Overwrites y, without f. Launch: grid (ceil(N/16), ceil(M/16)).
extern "C" __global__ void __launch_bounds__(THREADS) linear_tf32_forward(
    float* y, const float* x, const float* weight,
    const float* bias, int M, int N, int K)
{
    forward<false>(y, x, weight, bias, M, N, K);
}

// Overwrites y, with f(z) = max(z, 0). Launch: as above.
extern "C" __global__ void __launch_bounds__(THREADS) linear_tf32_forward_relu(
    float* y, const float* x, const float* weight,
    const float* bias, int M, int N, int K)
{
    forward<true>(y, x, weight, bias, M, N, K);
}

// ---- backward ----
// dx, in blocks along K first. y: null unless GATED. WHOLE: N is a multiple of 4.
template <bool GATED, bool WHOLE>
__device__ __forceinline__ void backward_input(
    Room& room, float* dx, const float* dy, const float* weight, const float* y, int M, int N,
    int K, int block)
{
    int across = ceil_div(K, 32);
    Operand<2, false, WHOLE> a = {dy, N, block / across * 16, M};
    Operand<4, true, true> b = {weight, K, block % across * 32, K};
    Slice<2, GATED, decltype(a), decltype(b)> slice;
    slice.load(a, y, b, slice.first_depth(), N);
    Sums<decltype(a), decltype(b)> sums = {};
    multiply_slices(sums, slice, a, y, b, N);
    float4 quad = add_warps(room, sums);
    Place own = own_place(a, b);
    if (own.valid) store_quad(dx + (size_t)own.row * K + own.column, quad, own.valid);
}

// dweight and dbias, in blocks along K first. Who owns the first columns of dweight owns dbias.
template <bool GATED, bool WHOLE>
__device__ __forceinline__ void backward_weight(
    Room& room, float* dweight, float* dbias, const float* dy, const float* x, const float* y,
    int M, int N, int K, int block)
{
    int across = ceil_div(K, 32);
    Operand<4, true, WHOLE> a = {dy, N, block / across * 32, N};
    Operand<4, true, true> b = {x, K, block % across * 32, K};
    Slice<1, GATED, decltype(a), decltype(b)> slice;
    slice.load(a, y, b, slice.first_depth(), M);
    Sums<decltype(a), decltype(b)> sums = {};
    multiply_slices(sums, slice, a, y, b, M);
    bool owns_dbias = dbias && b.first == 0;
    if (owns_dbias) put_lines(room, sums);
    float4 quad = add_warps(room, sums);
    Place own = own_place(a, b);
    if (own.valid) store_quad(dweight + (size_t)own.row * K + own.column, quad, own.valid);

    int line = threadIdx.x, n = a.first + line;
    if (!owns_dbias || line >= MOST_LINES || n >= N) return;
    float sum = 0.0f;
    VECTOR for (int w = 0; w < WARPS; w++) sum += room.lines[w][line];
    dbias[n] = sum;
}

template <bool GATED, bool WHOLE>
__device__ __forceinline__ void backward(
    Room& room, float* dx, float* dweight, float* dbias, const float* dy, const float* x,
    const float* weight, const float* y, int M, int N, int K, int input_blocks)
{
    int block = blockIdx.x;
    if (block < input_blocks) {
        backward_input<GATED, WHOLE>(room, dx, dy, weight, y, M, N, K, block);
    } else {
        block -= input_blocks;
        backward_weight<GATED, WHOLE>(room, dweight, dbias, dy, x, y, M, N, K, block);
    }
}

// All gradients at once, for they do not wait for each other: blocks up to input_blocks =
// ceil(K/32)*ceil(M/16), or 0, overwrite dx; the others, ceil(K/32)*ceil(N/32), overwrite dweight
// and, unless null, dbias. f(z) = z. Launch: one row of all blocks.
extern "C" __global__ void __launch_bounds__(THREADS) linear_tf32_backward(
    float* dx, float* dweight, float* dbias,
    const float* dy, const float* x, const float* weight,
    int M, int N, int K, int input_blocks)
{
    __shared__ Room room;
    if (N % 4 == 0) {
        backward<false, true>(
            room, dx, dweight, dbias, dy, x, weight, nullptr, M, N, K, input_blocks);
    } else {
        backward<false, false>(
            room, dx, dweight, dbias, dy, x, weight, nullptr, M, N, K, input_blocks);
    }
}

// The same with f(z) = max(z, 0), whose results y are.
extern "C" __global__ void __launch_bounds__(THREADS) linear_tf32_backward_relu(
    float* dx, float* dweight, float* dbias,
    const float* dy, const float* x, const float* weight,
    const float* y, int M, int N, int K, int input_blocks)
{
    __shared__ Room room;
    if (N % 4 == 0) {
        backward<true, true>(room, dx, dweight, dbias, dy, x, weight, y, M, N, K, input_blocks);
    } else {
        backward<true, false>(room, dx, dweight, dbias, dy, x, weight, y, M, N, K, input_blocks);
    }
}
