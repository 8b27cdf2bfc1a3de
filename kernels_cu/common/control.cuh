// The control block: everything that changes from step to step, in device memory, so that one
// recorded graph serves every step. One block a training run. lowgraph/ops/control.py holds the
// same layout as a NumPy dtype: change both.
//
// The host alone writes the first group, between steps and in stream order. control_advance
// rewrites the second in every step, behind the draw of its batch.
#pragma once

struct Control {
    // settings
    long long total_steps;    // length of the learning-rate schedule
    long long warmup_steps;   // linear warm-up, 0 for none
    unsigned long long seed;  // key of the counter-based generator
    double beta1, beta2;      // AdamW
    double ema_decay;         // of the average of the weights
    double clip_norm;         // limit of the gradients' global norm, 0 for none
    float lr_max, lr_min;
    float epsilon;
    float weight_decay;
    int schedule;             // SCHEDULE_..., after the warm-up
    int ema_warmup;           // 1: ema_decay is at most (1 + step) / (10 + step)
    // state of the running step
    long long step;           // its number, 1 for the first; 0 before any
    float lr;
    float decay;              // 1 - lr * weight_decay
    float step_size;          // lr / (1 - beta1^step)
    float root_bias2;         // sqrt(1 - beta2^step)
    float keep1, gain1;       // beta1, 1 - beta1
    float keep2, gain2;       // beta2, 1 - beta2
    float ema_keep, ema_gain; // this step's decay, 1 - it
};

#define SCHEDULE_COSINE 0
#define SCHEDULE_LINEAR 1
#define SCHEDULE_CONSTANT 2

static_assert(sizeof(Control) == 128, "lowgraph/ops/control.py holds the same layout");
