// AdamW (Loshchilov and Hutter 2019), float32, in place over flat arenas: one launch for all
// tensors.
//
//   g = coefficient * grad, 0 where grad is not finite    (grad_norm.cu; grad is left as it is)
//   p = p * (1 - lr * weight_decay)          for the first n_decay elements, not for the rest
//   m = beta1 * m + (1 - beta1) * g,         v = beta2 * v + (1 - beta2) * g^2
//   p = p - lr / (1 - beta1^step) * m / (sqrt(v) / sqrt(1 - beta2^step) + epsilon)
//   ema = keep * ema + (1 - keep) * p        with EMA, keep being the control block's ema_keep
//   shadow = p as bfloat16, to nearest even  with SHADOW
//
// Shapes: param, m, v, ema, shadow, grad [n], each in the same order; stats: of this step's
// gradients; control: the control block, advanced to this step.
// EMA and SHADOW are defines, 0 or 1; without them ema and shadow are null.

#ifndef EMA
#define EMA 0
#endif
#ifndef SHADOW
#define SHADOW 0
#endif

#if SHADOW
#include <cuda_bf16.h>
#else
struct __nv_bfloat16;  // the header takes longer to compile than the kernel
#endif

#include "common/control.cuh"   // Control
#include "common/gradient.cuh"  // GradientStats, finite_or_zero
#include "common/turn.cuh"      // turns

#define QUADS 2
#define TURN TURN_ELEMENTS(QUADS)

__device__ __forceinline__ void adamw_element(
    float* p, float* m, float* v, float g, float decay, const Control& c)
{
    *m = c.keep1 * *m + c.gain1 * g;
    *v = c.keep2 * *v + c.gain2 * g * g;
    *p = *p * decay - c.step_size * *m / (sqrtf(*v) / c.root_bias2 + c.epsilon);
}

// decaying: how many of the four elements decay, counted from the first; may be out of 0 .. 4.
__device__ __forceinline__ void adamw_quad(
    float4* p, float4* m, float4* v, float4 g, float coefficient, long long decaying,
    const Control& c)
{
    float x = decaying > 0 ? c.decay : 1.0f, y = decaying > 1 ? c.decay : 1.0f;
    float z = decaying > 2 ? c.decay : 1.0f, w = decaying > 3 ? c.decay : 1.0f;
    adamw_element(&p->x, &m->x, &v->x, coefficient * finite_or_zero(g.x), x, c);
    adamw_element(&p->y, &m->y, &v->y, coefficient * finite_or_zero(g.y), y, c);
    adamw_element(&p->z, &m->z, &v->z, coefficient * finite_or_zero(g.z), z, c);
    adamw_element(&p->w, &m->w, &v->w, coefficient * finite_or_zero(g.w), w, c);
}

#if SHADOW
__device__ __forceinline__ unsigned int bfloat16_pair(float first, float second)
{
    __nv_bfloat162 pair = __floats2bfloat162_rn(first, second);
    return *reinterpret_cast<unsigned int*>(&pair);
}

// The first `valid` (1..4) of q, rounded, to to[0], to[1] ...
__device__ __forceinline__ void store_bfloat16_quad(__nv_bfloat16* to, float4 q, int valid)
{
    if (valid == 4 && ((size_t)to & 7) == 0) {
        uint2 bits = make_uint2(bfloat16_pair(q.x, q.y), bfloat16_pair(q.z, q.w));
        *reinterpret_cast<uint2*>(to) = bits;
        return;
    }
    to[0] = __float2bfloat16_rn(q.x);
    if (valid > 1) to[1] = __float2bfloat16_rn(q.y);
    if (valid > 2) to[2] = __float2bfloat16_rn(q.z);
    if (valid > 3) to[3] = __float2bfloat16_rn(q.w);
}

// The elements of this thread's turn that exist.
__device__ __forceinline__ void store_shadow(
    __nv_bfloat16* shadow, const float4 (&p)[QUADS], long long first, long long n)
{
    UNROLL for (int k = 0; k < QUADS; k++) {
        long long i = turn_place(first, k);
        if (i < n) store_bfloat16_quad(shadow + i, p[k], quad_valid(i, n));
    }
}
#endif

// Updates param, m, v and ema in place, overwrites shadow.
// Launch: block 128, grid ceil(n/1024); eight elements a thread.
extern "C" __global__ void __launch_bounds__(128) adamw(
    float* __restrict__ param, float* __restrict__ m, float* __restrict__ v,
    float* __restrict__ ema, __nv_bfloat16* __restrict__ shadow, const float* __restrict__ grad,
    const GradientStats* __restrict__ stats, const Control* __restrict__ control,
    long long n_decay, long long n)
{
    long long first = (long long)blockIdx.x * TURN;
    size_t addresses = (size_t)param | (size_t)m | (size_t)v | (size_t)grad | (size_t)ema;
    bool whole = first + TURN <= n && (addresses & 15) == 0;
    const Control& c = *control;
    float coefficient = stats->coefficient;

    float4 p[QUADS], a[QUADS], b[QUADS], g[QUADS];
    load_turn(p, param, first, n, whole);
    load_turn(a, m, first, n, whole);
    load_turn(b, v, first, n, whole);
    load_turn(g, grad, first, n, whole);
#if EMA
    float4 e[QUADS];
    load_turn(e, ema, first, n, whole);
#endif
    UNROLL for (int k = 0; k < QUADS; k++) {
        adamw_quad(&p[k], &a[k], &b[k], g[k], coefficient, n_decay - turn_place(first, k), c);
    }
    store_turn(param, p, first, n, whole);
    store_turn(m, a, first, n, whole);
    store_turn(v, b, first, n, whole);
#if EMA
    float4 keep = same_quad(c.ema_keep), gain = same_quad(c.ema_gain);
    UNROLL for (int k = 0; k < QUADS; k++) {
        e[k] = fma_quad(keep, e[k], multiply_quad(gain, p[k]));
    }
    store_turn(ema, e, first, n, whole);
#endif
#if SHADOW
    store_shadow(shadow, p, first, n);
#endif
}

#if SHADOW
// Overwrites shadow with param as bfloat16, to nearest even: what `adamw` keeps up from then on.
// Launch: block 128, grid ceil(n/1024).
extern "C" __global__ void __launch_bounds__(128) adamw_shadow(
    __nv_bfloat16* __restrict__ shadow, const float* __restrict__ param, long long n)
{
    long long first = (long long)blockIdx.x * TURN;
    float4 p[QUADS];
    load_turn(p, param, first, n, first + TURN <= n && quad_aligned(param));
    store_shadow(shadow, p, first, n);
}
#endif
