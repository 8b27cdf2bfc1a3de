// Kernels that touch memory in different orders, for who is named in a race between works. One block
// size and grid for all: thread t of the launch, of `total` threads, has the turns t, t + total ...
// below n; kernels with `group` floats a turn touch as many elements in it.
struct Turns {
    int first, total;
};

__device__ Turns turns() {
    int block = blockIdx.x + gridDim.x * blockIdx.y;
    int threads = blockDim.x * blockDim.y * blockDim.z;
    int thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    return {block * threads + thread, threads * (int)(gridDim.x * gridDim.y)};
}

extern "C" __global__ void plain(float* y, int n) {
    for (int k = turns().first; k < n; k += turns().total) y[k] = 1.0f;
}

extern "C" __global__ void scattered(float* y, int n) {
    for (int k = turns().first; k < n; k += turns().total) y[k * 7 % n] = 1.0f;
}

extern "C" __global__ void backwards(float* y, int n) {
    for (int k = turns().first; k < n; k += turns().total) y[n - 1 - k] = 1.0f;
}

// Four floats a turn, each in a line of its own.
extern "C" __global__ void by_fours(float* y, int n) {
    for (int k = 4 * turns().first; k + 3 < n; k += 4 * turns().total) {
        y[k] = 1.0f;
        y[k + 1] = 2.0f;
        y[k + 2] = 3.0f;
        y[k + 3] = 4.0f;
    }
}

extern "C" __global__ void vectors(float* y, int n) {
    for (int k = turns().first; 4 * k + 3 < n; k += turns().total)
        reinterpret_cast<float4*>(y)[k] = make_float4(1.0f, 2.0f, 3.0f, 4.0f);
}

// Element k is added to by the turns 2k and 2k + 1.
extern "C" __global__ void added(float* y, int n) {
    for (int k = turns().first; k < 2 * n; k += turns().total) atomicAdd(&y[k / 2], 1.0f);
}

extern "C" __global__ void of_halves(short* y, int n) {
    for (int k = turns().first; k < n; k += turns().total) y[k] = 1;
}

extern "C" __global__ void of_bytes(char* y, int n) {
    for (int k = turns().first; k < n; k += turns().total) y[k] = 1;
}

extern "C" __global__ void only_read(float* y, int n) {
    float sum = 0.0f;
    for (int k = turns().first; k < n; k += turns().total) sum += y[k];
    if (sum < 0.0f) y[0] = sum;
}
