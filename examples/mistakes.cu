// Gradient descent, for examples/mistakes.py: w <- w - rate * g, element by element.

// Updates w in place.   Launch: block 256, grid ceil(n/256).
extern "C" __global__ void descend(float* w, const float* g, float rate, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) w[i] -= rate * g[i];
}
