// The kernels of examples/debugging: plain, so that only the capture can go wrong.

// Updates w in place: w -= rate * g.   Launch: block 256, grid ceil(n/256).
extern "C" __global__ void descend(float* w, const float* g, float rate, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) w[i] -= rate * g[i];
}

// The same with the rate read from the device.   Launch: block 256, grid ceil(n/256).
extern "C" __global__ void descend_at(float* w, const float* g, const float* rate, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) w[i] -= rate[0] * g[i];
}

// rate *= factor, for the next step.   Launch: one thread.
extern "C" __global__ void decay(float* rate, float factor)
{
    rate[0] *= factor;
}

// y = factor * x   overwrites.   Launch: block 256, grid ceil(n/256).
extern "C" __global__ void scale(float* y, const float* x, float factor, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = factor * x[i];
}

// y += x   in place.   Launch: block 256, grid ceil(n/256).
extern "C" __global__ void add(float* y, const float* x, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += x[i];
}
