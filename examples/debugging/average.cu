// A source of its own, for lazy_load.py: what is not loaded when the step is recorded.

// a = 0.9 a + 0.1 w   in place.   Launch: block 256, grid ceil(n/256).
extern "C" __global__ void average(float* a, const float* w, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) a[i] = 0.9f * a[i] + 0.1f * w[i];
}
