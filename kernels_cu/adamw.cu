// AdamW (Loshchilov and Hutter 2019), float32, in place over flat arenas: one launch for all
// tensors.
//
//   p = p * (1 - lr * weight_decay)          for the first n_decay elements, not for the rest
//   m = beta1 * m + (1 - beta1) * g,         v = beta2 * v + (1 - beta2) * g^2
//   p = p - lr / (1 - beta1^step) * m / (sqrt(v) / sqrt(1 - beta2^step) + epsilon)
//
// Shapes: param, m, v, grad [n], each in the same order; control: the control block, advanced to
// this step.

#include "common/control.cuh"  // Control
#include "common/quad.cuh"     // quads

struct Update {
    float p, m, v;
};

__device__ __forceinline__ Update adamw_element(
    float p, float m, float v, float g, bool decays, const Control& c)
{
    Update u;
    u.m = c.keep1 * m + c.gain1 * g;
    u.v = c.keep2 * v + c.gain2 * g * g;
    u.p = (decays ? p * c.decay : p) - c.step_size * u.m / (sqrtf(u.v) / c.root_bias2 + c.epsilon);
    return u;
}

// Updates param, m and v in place.
// Launch: block 128, grid ceil(n/512); four elements a thread.
extern "C" __global__ void __launch_bounds__(128) adamw(
    float* __restrict__ param, float* __restrict__ m, float* __restrict__ v,
    const float* __restrict__ grad, const Control* __restrict__ control, long long n_decay,
    long long n)
{
    long long i = ((long long)blockIdx.x * blockDim.x + threadIdx.x) * 4;
    if (i >= n) return;
    int valid = quad_valid(i, n);
    const Control& c = *control;
    float4 p = load_quad(param + i, valid), a = load_quad(m + i, valid);
    float4 b = load_quad(v + i, valid), g = load_quad(grad + i, valid);
    Update x = adamw_element(p.x, a.x, b.x, g.x, i + 0 < n_decay, c);
    Update y = adamw_element(p.y, a.y, b.y, g.y, i + 1 < n_decay, c);
    Update z = adamw_element(p.z, a.z, b.z, g.z, i + 2 < n_decay, c);
    Update w = adamw_element(p.w, a.w, b.w, g.w, i + 3 < n_decay, c);
    store_quad(param + i, make_float4(x.p, y.p, z.p, w.p), valid);
    store_quad(m + i, make_float4(x.m, y.m, z.m, w.m), valid);
    store_quad(v + i, make_float4(x.v, y.v, z.v, w.v), valid);
}
