// Small kernels for the field cases: each shows one way in which a recorded argument goes stale.

// out[i] = value   overwrites.   Launch: block 128, grid ceil(n/128).
extern "C" __global__ void fill(float* out, float value, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = value;
}

// out[i] = factor * x[i]   overwrites.   Launch: block 128, grid ceil(n/128).
extern "C" __global__ void scale(float* out, const float* x, float factor, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = factor * x[i];
}

// One AdamW-like step with what changes from step to step by value: p -= rate * m / correction.
// Updates m and p in place.   Launch: block 128, grid ceil(n/128).
extern "C" __global__ void adam_by_value(float* p, float* m, const float* g, float rate,
                                         float correction, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    m[i] = 0.9f * m[i] + 0.1f * g[i];
    p[i] -= rate * m[i] / correction;
}

// The same with both read from state = {step, power, rate}, which `adam_advance` moves on.
extern "C" __global__ void adam(float* p, float* m, const float* g, const float* state, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    m[i] = 0.9f * m[i] + 0.1f * g[i];
    p[i] -= state[2] * m[i] / (1.0f - state[1]);
}

// state[0] += 1; state[1] *= 0.9; state[2] = rate / step.   Launch: one thread.
extern "C" __global__ void adam_advance(float* state, float rate)
{
    state[0] += 1.0f;
    state[1] *= 0.9f;
    state[2] = rate / state[0];
}

// mask[i] = bit of a hash of (seed, offset[0] + i)   overwrites.   Launch: block 128.
extern "C" __global__ void mask_by_value(float* mask, unsigned int seed, const unsigned int* offset,
                                         int n)
{
    unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= (unsigned int)n) return;
    unsigned int h = (seed ^ (offset[0] + i)) * 2654435761u;
    h ^= h >> 15;
    mask[i] = (float)((h * 2246822519u) >> 31);
}

// The same with state = {seed, offset} on the device; `mask_advance` ends the step.
extern "C" __global__ void mask_from_state(float* mask, const unsigned int* state, int n)
{
    unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= (unsigned int)n) return;
    unsigned int h = (state[0] ^ (state[1] + i)) * 2654435761u;
    h ^= h >> 15;
    mask[i] = (float)((h * 2246822519u) >> 31);
}

// state[1] += n: what the step drew.   Launch: one thread.
extern "C" __global__ void mask_advance(unsigned int* state, int n)
{
    state[1] += (unsigned int)n;
}
