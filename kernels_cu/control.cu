// Advances the control block by one step: step number, learning rate, AdamW's bias corrections, the
// decay of the average of the weights.

#include "common/control.cuh"  // Control

#define PI 3.14159265358979323846

// base^exponent by squaring. Each step's power is made from its number alone: a running product
// would carry its rounding from step to step, and a resumed run could not rebuild it.
__device__ __forceinline__ double whole_power(double base, long long exponent)
{
    double result = 1.0;
    for (; exponent > 0; exponent >>= 1) {
        if (exponent & 1) result *= base;
        base *= base;
    }
    return result;
}

//   lr = lr_max * step / warmup_steps             for step <= warmup_steps,
//      = lr_min + (lr_max - lr_min) * share       after, with
//   share = (1 + cos(pi * progress)) / 2 (cosine), 1 - progress (linear), 1 (constant),
//   progress = (step - warmup_steps) / (total_steps - warmup_steps), at most 1
__device__ __forceinline__ double scheduled_lr(const Control& c, long long step)
{
    if (step <= c.warmup_steps) return (double)c.lr_max * step / c.warmup_steps;
    if (c.schedule == SCHEDULE_CONSTANT) return c.lr_max;
    if (step >= c.total_steps) return c.lr_min;
    double progress = (double)(step - c.warmup_steps) / (c.total_steps - c.warmup_steps);
    double share = 0.5 * (1.0 + cos(PI * progress));
    if (c.schedule == SCHEDULE_LINEAR) share = 1.0 - progress;
    return c.lr_min + ((double)c.lr_max - c.lr_min) * share;
}

// keep = ema_decay, or with a warm-up min(ema_decay, (1 + step) / (10 + step)): an average that
// begins at the initial weights would else carry them for 1 / (1 - ema_decay) steps.
__device__ __forceinline__ double ema_keep(const Control& c, long long step)
{
    double early = (1.0 + step) / (10.0 + step);
    return c.ema_warmup && early < c.ema_decay ? early : c.ema_decay;
}

// Updates the state group in place; the settings are left alone.
// Launch: block 1, grid 1.
extern "C" __global__ void control_advance(Control* control)
{
    Control& c = *control;
    long long step = c.step + 1;
    double lr = scheduled_lr(c, step);
    c.step = step;
    c.lr = (float)lr;
    c.decay = (float)(1.0 - lr * c.weight_decay);
    c.step_size = (float)(lr / (1.0 - whole_power(c.beta1, step)));
    c.root_bias2 = (float)sqrt(1.0 - whole_power(c.beta2, step));
    c.keep1 = (float)c.beta1;
    c.gain1 = (float)(1.0 - c.beta1);
    c.keep2 = (float)c.beta2;
    c.gain2 = (float)(1.0 - c.beta2);
    double keep = ema_keep(c, step);
    c.ema_keep = (float)keep;
    c.ema_gain = (float)(1.0 - keep);
}
