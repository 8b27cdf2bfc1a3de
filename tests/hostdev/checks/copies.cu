// Asynchronous copies that are right, and that are not waited for as they must be. Each kernel is
// launched with one block of 64 threads; y and x have 256 floats each, x is multiples of 1.
// The words behind "FINDS" are what the checker says of the line.
#include <cuda_pipeline.h>

#define START(to, from) __pipeline_memcpy_async(to, from, 4)

// ---- what must be found ----
extern "C" __global__ void no_wait(float* y, float* x) {
    __shared__ float tile[64];
    int t = threadIdx.x;
    START(&tile[t], &x[t]);
    __pipeline_commit();
    __syncthreads();
    y[t] = tile[63 - t];  // FINDS uninitialised-read
}

extern "C" __global__ void open_batch(float* y, float* x) {
    __shared__ float tile[64];
    int t = threadIdx.x;
    START(&tile[t], &x[t]);
    __pipeline_wait_prior(0);
    __syncthreads();
    y[t] = tile[63 - t];  // FINDS uninitialised-read
}

extern "C" __global__ void one_waits(float* y, float* x) {
    __shared__ float tile[64];
    int t = threadIdx.x;
    START(&tile[t], &x[t]);
    __pipeline_commit();
    if (t == 63) __pipeline_wait_prior(0);
    __syncthreads();
    y[t] = tile[63 - t];  // FINDS uninitialised-read
}

// The last tile has no newer batch behind it.
extern "C" __global__ void last_not_awaited(float* y, float* x) {
    __shared__ float tile[2][64];
    int t = threadIdx.x;
    START(&tile[0][t], &x[t]);
    __pipeline_commit();
    float sum = 0.0f;
    for (int s = 0; s < 4; s++) {
        if (s < 3) {
            START(&tile[(s + 1) % 2][t], &x[64 * (s + 1) + t]);
            __pipeline_commit();
        }
        __pipeline_wait_prior(1);
        __syncthreads();
        sum += tile[s % 2][63 - t];  // FINDS uninitialised-read
        __syncthreads();
    }
    y[t] = sum;
}

// One batch too few from the first tile on; each tile comes while the others read it.
extern "C" __global__ void one_too_few(float* y, float* x) {
    __shared__ float tile[3][64];
    int t = threadIdx.x;
    for (int s = 0; s < 2; s++) {
        START(&tile[s][t], &x[64 * s + t]);
        __pipeline_commit();
    }
    float sum = 0.0f;
    for (int s = 0; s < 4; s++) {
        __pipeline_wait_prior(2);
        __syncthreads();
        if (s < 2) START(&tile[(s + 2) % 3][t], &x[64 * (s + 2) + t]);
        __pipeline_commit();
        sum += tile[s % 3][63 - t];  // FINDS uninitialised-read shared-race
    }
    y[t] = sum;
}

extern "C" __global__ void no_barrier(float* y, float* x) {
    __shared__ float tile[64];
    int t = threadIdx.x;
    tile[t] = 0.0f;
    __syncthreads();
    START(&tile[t], &x[t]);  // FINDS shared-race
    __pipeline_commit();
    __pipeline_wait_prior(0);
    y[t] = tile[63 - t];
}

extern "C" __global__ void started_over_readers(float* y, float* x) {
    __shared__ float tile[64];
    int t = threadIdx.x;
    tile[t] = x[t];
    __syncthreads();
    y[t] = tile[63 - t];  // FINDS shared-race
    START(&tile[t], &x[64 + t]);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
    y[64 + t] = tile[63 - t];
}

// The thread has left: nobody can wait for its copy.
extern "C" __global__ void returned(float* y, float* x) {
    __shared__ float tile[64];
    int t = threadIdx.x;
    START(&tile[t], &x[t]);
    __pipeline_commit();
    if (t >= 32) return;
    __pipeline_wait_prior(0);
    __syncthreads();  // FINDS divergent-barrier
    y[t] = tile[63 - t];  // FINDS uninitialised-read
}

// Between barriers, and all the same at any time before the copy's end.
extern "C" __global__ void source_overwritten(float* y, float* x) {
    __shared__ float tile[64];
    int t = threadIdx.x;
    START(&tile[t], &x[t]);  // FINDS global-race
    __pipeline_commit();
    __syncthreads();
    x[63 - t] = -1.0f;
    __syncthreads();
    __pipeline_wait_prior(0);
    __syncthreads();
    y[t] = tile[63 - t];
}

extern "C" __global__ void target_overwritten(float* y, float* x) {
    __shared__ float tile[64];
    int t = threadIdx.x;
    START(&tile[t], &x[t]);  // FINDS shared-race
    __pipeline_commit();
    __syncthreads();
    tile[63 - t] = -1.0f;
    __syncthreads();
    __pipeline_wait_prior(0);
    __syncthreads();
    y[t] = tile[63 - t];
}

extern "C" __global__ void source_unwritten(float* y, float* x) {
    __shared__ float tile[64];
    int t = threadIdx.x;
    START(&tile[t], &y[t]);  // FINDS uninitialised-read
    __pipeline_commit();
    __pipeline_wait_prior(0);
    y[64 + t] = tile[t];
}

// ---- what is right ----
extern "C" __global__ void own_bytes_clean(float* y, float* x) {
    __shared__ float tile[64];
    int t = threadIdx.x;
    START(&tile[t], &x[t]);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    y[t] = tile[t];
}

extern "C" __global__ void one_tile_clean(float* y, float* x) {
    __shared__ float tile[64];
    int t = threadIdx.x;
    START(&tile[t], &x[t]);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
    y[t] = tile[63 - t];
}

extern "C" __global__ void two_stages_clean(float* y, float* x) {
    __shared__ float tile[2][64];
    int t = threadIdx.x;
    START(&tile[0][t], &x[t]);
    __pipeline_commit();
    float sum = 0.0f;
    for (int s = 0; s < 4; s++) {
        if (s < 3) START(&tile[(s + 1) % 2][t], &x[64 * (s + 1) + t]);
        __pipeline_commit();  // empty behind the last tile
        __pipeline_wait_prior(1);
        __syncthreads();
        sum += tile[s % 2][63 - t];
        __syncthreads();
    }
    y[t] = sum;
}

extern "C" __global__ void three_stages_clean(float* y, float* x) {
    __shared__ float tile[3][64];
    int t = threadIdx.x;
    for (int s = 0; s < 2; s++) {
        START(&tile[s][t], &x[64 * s + t]);
        __pipeline_commit();
    }
    float sum = 0.0f;
    for (int s = 0; s < 4; s++) {
        __pipeline_wait_prior(1);
        __syncthreads();
        if (s < 2) START(&tile[(s + 2) % 3][t], &x[64 * (s + 2) + t]);
        __pipeline_commit();
        sum += tile[s % 3][63 - t];
    }
    y[t] = sum;
}

// Sizes of 4, 8 and 16 bytes, of each all, a part and nothing read: what is not read need not be
// there. y: 64 threads' first four numbers.
extern "C" __global__ void zeros_clean(float* y, float* x) {
    __shared__ float4 tile[64];
    int t = threadIdx.x, bytes = 4 << t % 3, zeros = bytes / 4 * (t / 3 % 2 * 2 + t / 6 % 3);
    bool whole = zeros >= bytes;
    tile[t] = make_float4(5.0f, 5.0f, 5.0f, 5.0f);
    __pipeline_memcpy_async(&tile[t], whole ? nullptr : x + 4 * t, bytes, whole ? bytes : zeros);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    reinterpret_cast<float4*>(y)[t] = tile[t];
}

// Copies that nobody waits for and whose bytes nobody uses, of threads that leave and that stay.
extern "C" __global__ void never_used_clean(float* y, float* x) {
    __shared__ float tile[2][64];
    int t = threadIdx.x;
    START(&tile[0][t], &x[t]);
    __pipeline_commit();
    START(&tile[1][t], &x[64 + t]);
    __pipeline_commit();
    if (t >= 40) return;
    __pipeline_wait_prior(1);
    y[t] = tile[0][t];
}
