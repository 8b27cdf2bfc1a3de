// Which memory a finding is of, and which bugs of a line are one: further kernels of memory.py, whose
// launches and marks are those of memory.cu.

// Local arrays. x holds ones, n is 32: an index that the compiler does not know.
extern "C" __global__ void local_write(float* y, const float* x, int n) {
    float own[4] = {1, 2, 3, 4};
    own[(int)x[threadIdx.x] + 4] = 7.0f;  // BUG out-of-bounds own
    y[threadIdx.x] = own[n % 4];
}
// So far out that the write would leave the stack.
extern "C" __global__ void local_far_write(float* y, const float* x, int n) {
    int many[3], own[4];
    for (int k = 0; k < 4; ++k) own[k] = k, many[k % 3] = k;
    own[(int)x[threadIdx.x] * 1000000] = 7;  // BUG out-of-bounds own
    y[threadIdx.x] = own[n % 4] + many[n % 3];
}
extern "C" __global__ void local_read(float* y, const float* x, int n) {
    float first[2] = {x[0], x[1]}, own[2][4];
    for (int k = 0; k < 8; ++k) own[k / 4][k % 4] = x[k];
    y[threadIdx.x] = own[n % 2][(int)x[threadIdx.x] + 3] + first[n % 2];  // BUG out-of-bounds own
}
struct Sums {
    float of[4], all;
    __device__ float at(int i) const { return of[i]; }
};
extern "C" __global__ void local_member(float* y, const float* x, int n) {
    Sums sums = {{1, 2, 3, 4}, 0};
    if (n > 0) {
        sums.of[(int)x[threadIdx.x] + 4] += 7.0f;  // BUG out-of-bounds sums
    }
    y[threadIdx.x] = sums.of[n % 4];
}
extern "C" __global__ void local_cast(float* y, const float* x, int n) {
    int own[2] = {n, n};
    if (n > 0)
        y[threadIdx.x] = n < 8 ? 0 : (float)own[(int)x[threadIdx.x] + 1];  // BUG out-of-bounds own
}
extern "C" __global__ void local_compared(float* y, const float* x, int n) {
    float *to = y, own[2] = {x[0], x[1]};
    to[threadIdx.x] = n > own[-(int)x[threadIdx.x]];  // BUG out-of-bounds own
}
// None of these is a local array: the block goes on, and the bug behind the index is found too.
__device__ float far[16];
extern "C" __global__ void not_local(float* y, const float* x, int n) {
    __shared__ float rows[4][8];
    rows[threadIdx.x / 8][threadIdx.x % 8] = x[threadIdx.x];
    __syncthreads();
    auto row_of = [](float (&line)[8], int i) {
        return line[i];  // BUG out-of-bounds rows
    };
    float sum = row_of(rows[0], (int)x[threadIdx.x] + 8);
    auto& row = rows[1];
    sum += row[(int)x[threadIdx.x] + 8];  // BUG out-of-bounds rows
    sum += rows[0][(int)x[threadIdx.x] + 8];  // BUG out-of-bounds rows
    sum += far[(int)x[threadIdx.x] + 16];  // BUG out-of-bounds far
    y[n + threadIdx.x] = sum;  // BUG out-of-bounds y
}

// One line, several bugs.
extern "C" __global__ void update_past_end(float* y, const float* x, int n) {
    y[threadIdx.x + 1] += x[0];  // BUG out-of-bounds y
}
extern "C" __global__ void moved_past_end(float* y, const float* x, int n) {
    float* to = y + n;
    to[1] = to[3];  // BUG out-of-bounds y; BUG out-of-bounds y
}
extern "C" __global__ void no_memory(float* y, const float* x, int n) {
    y[threadIdx.x] = x[threadIdx.x];  // BUG out-of-bounds None
}
extern "C" __global__ void misaligned_tile(float* y, const float* x, int n) {
    __shared__ char bytes[64];
    bytes[threadIdx.x] = bytes[threadIdx.x + 32] = 0;
    __syncwarp();
    y[threadIdx.x] = *(const float*)(bytes + 1);  // BUG misaligned bytes
}
// Launched with three pairs of slices: the same bug three times over.
extern "C" __global__ void three_slices(float* y, const float* x, int n) {
    y[threadIdx.x] = x[0];  // BUG out-of-bounds weights; BUG out-of-bounds gradient; BUG out-of-bounds momentum
}
// The line races once for each memory.
extern "C" __global__ void two_races(float* y, const float* x, int n) {
    y[0] = threadIdx.x;  // BUG global-race first; BUG global-race second
}
