// Batches cut from a corpus of bytes in device memory: tokens[b,t] = corpus[start_b + t],
// targets[b,t] the byte after it.
//
// Shapes: tokens, targets [B,T] int32; corpus [corpus_bytes] unsigned char, corpus_bytes > T.

#include "common/control.cuh"  // Control
#include "common/philox.cuh"   // philox, USE_BATCH

__device__ __forceinline__ void copy_pair(
    int* tokens, int* targets, const unsigned char* corpus, size_t at, size_t to)
{
    tokens[to] = corpus[at];
    targets[to] = corpus[at + 1];
}

// Overwrites tokens and targets with B random windows of a step, the control block's and `ahead`
// more, drawn with replacement: start_b = (words 1,0 of philox(step, b, USE_BATCH, seed) as a
// 64-bit number) mod (corpus_bytes - T). The modulo favours low starts by less than corpus_bytes /
// 2^64.
// Launch: block 128, grid (ceil(T/128), B).
extern "C" __global__ void __launch_bounds__(128) batch_gather(
    int* __restrict__ tokens, int* __restrict__ targets, const unsigned char* __restrict__ corpus,
    const Control* __restrict__ control, int ahead, long long corpus_bytes, int B, int T)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x, b = blockIdx.y;
    if (t >= T || b >= B) return;
    Philox draw = philox(control->step + ahead, b, USE_BATCH, control->seed);
    unsigned long long number = (unsigned long long)draw.word[1] << 32 | draw.word[0];
    size_t start = number % (unsigned long long)(corpus_bytes - T);
    copy_pair(tokens, targets, corpus, start + t, (size_t)b * T + t);
}

// Overwrites tokens and targets with B neighbouring windows, start_b = places[cursor[0]] + b * T,
// for evaluation: places is a list of starts, each place + B * T < corpus_bytes.
// Launch: block 128, grid (ceil(T/128), B).
extern "C" __global__ void __launch_bounds__(128) batch_windows(
    int* __restrict__ tokens, int* __restrict__ targets, const unsigned char* __restrict__ corpus,
    const long long* __restrict__ places, const long long* __restrict__ cursor, int B, int T)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x, b = blockIdx.y;
    if (t >= T || b >= B) return;
    size_t in_batch = (size_t)b * T + t;
    copy_pair(tokens, targets, corpus, places[cursor[0]] + in_batch, in_batch);
}
