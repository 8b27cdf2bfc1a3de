// Included by language.cu: what a header of kernels holds.
#pragma once

namespace layout {
enum class Order : unsigned char { rows, columns };

template <Order order>
__host__ __device__ constexpr int offset(int row, int column, int rows, int columns) {
    return order == Order::rows ? row * columns + column : column * rows + row;
}
}  // namespace layout

template <class T, class Function>
__device__ __forceinline__ void for_each(T* y, const T* __restrict__ x, int n, Function function) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        y[i] = function(x[i], i);
    }
}

template <int degree>
struct Polynomial {
    float coefficients[degree + 1];
    __device__ float operator()(float x) const {
        float sum = coefficients[degree];
#pragma unroll
        for (int k = degree - 1; k >= 0; k--) sum = fmaf(sum, x, coefficients[k]);
        return sum;
    }
};
