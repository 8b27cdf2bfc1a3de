// Wide loads, neighbours and tiles.

#include <cuda_fp16.h>

// y = a * x + y in half precision, two elements a thread; x and y start at a multiple of 4 bytes.
// Launch: block 64, grid ceil(n/128).
extern "C" __global__ void half_axpy(__half* y, const __half* x, float a, int n)
{
    int i = (blockIdx.x * blockDim.x + threadIdx.x) * 2;
    if (i >= n) return;
    if (i + 1 < n) {
        float2 p = __half22float2(*reinterpret_cast<const __half2*>(x + i));
        float2 q = __half22float2(*reinterpret_cast<const __half2*>(y + i));
        *reinterpret_cast<__half2*>(y + i) = __floats2half2_rn(a * p.x + q.x, a * p.y + q.y);
    } else {
        y[i] = __float2half(a * __half2float(x[i]) + __half2float(y[i]));
    }
}

// Overwrites out [n] with the lengths of the pairs xy [n].
// Launch: block 64, grid ceil(n/64).
extern "C" __global__ void pair_length(float* out, const float2* xy, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float2 p = xy[i];
    out[i] = sqrtf(p.x * p.x + p.y * p.y);
}

// Overwrites y [n] with the mean of each element of x [n] and its neighbours; the ends repeat.
// Launch: block 64, grid ceil(n/64).
extern "C" __global__ void smooth(float* y, const float* x, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float left = i > 0 ? x[i - 1] : x[i];
    float right = i < n - 1 ? x[i + 1] : x[i];
    y[i] = (left + x[i] + right) / 3.0f;
}

// The same sum, undivided and with zeros beyond the ends, over a tile in shared memory.
// Launch: block 64, grid ceil(n/64), (64 + 2) * 4 bytes of dynamic shared memory.
extern "C" __global__ void window_sum(float* y, const float* x, int n)
{
    extern __shared__ float tile[];
    int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    tile[t + 1] = i < n ? x[i] : 0.0f;
    if (t == 0) tile[0] = i > 0 ? x[i - 1] : 0.0f;
    if (t == blockDim.x - 1) tile[t + 2] = i + 1 < n ? x[i + 1] : 0.0f;
    __syncthreads();
    if (i < n) y[i] = tile[t] + tile[t + 1] + tile[t + 2];
}

// Overwrites out [columns,rows] with the transpose of in [rows,columns]; out must not be in.
// Launch: block (32, 8), grid (ceil(columns/32), ceil(rows/32)).
extern "C" __global__ void transpose(float* out, const float* in, int rows, int columns)
{
    __shared__ float tile[32][33];
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    for (int k = 0; k < 32; k += 8) {
        if (x < columns && y + k < rows) tile[threadIdx.y + k][threadIdx.x] = in[(y + k) * columns + x];
    }
    __syncthreads();
    x = blockIdx.y * 32 + threadIdx.x, y = blockIdx.x * 32 + threadIdx.y;
    for (int k = 0; k < 32; k += 8) {
        if (x < rows && y + k < columns) out[(y + k) * rows + x] = tile[threadIdx.x][threadIdx.y + k];
    }
}
