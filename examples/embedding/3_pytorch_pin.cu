// A linear model: its errors and their gradient, for 3_pytorch_pin.py. x is [n, d], row-major.

// e[n] is overwritten: e = x w - y. One thread a row, any 1-d grid that covers n.
extern "C" __global__ void errors(float* e, const float* x, const float* w, const float* y, int n,
                                  int d) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float sum = -y[i];
    for (int j = 0; j < d; ++j) sum += x[i * d + j] * w[j];
    e[i] = sum;
}

// g[d] is overwritten: g = 2 x^T e / n, the gradient of mean(e^2). One thread a column.
extern "C" __global__ void gradient(float* g, const float* x, const float* e, int n, int d) {
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    if (j >= d) return;
    float sum = 0;
    for (int i = 0; i < n; ++i) sum += x[i * d + j] * e[i];
    g[j] = 2 * sum / n;
}
