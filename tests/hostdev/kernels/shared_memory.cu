// Shared memory in the forms that kernels use it in, and the barriers' votes. Launch: as each says.

struct Particle {
    float x, y;
    int cell;
};

template <class T, int count>
__device__ T block_sum(T value) {
    __shared__ T parts[count];
    int i = threadIdx.x;
    parts[i] = value;
    __syncthreads();
    for (int width = count / 2; width > 0; width /= 2) {
        if (i < width) parts[i] += parts[i + width];
        __syncthreads();
    }
    T total = parts[0];
    __syncthreads();
    return total;
}

// y[c][r] = x[r][c]; x: [rows, columns]. Launch: 32 x 8 threads for each 32 x 32 tile.
extern "C" __global__ void transpose_tile(float* y, const float* x, int rows, int columns) {
    __shared__ float tile[32][33];
    int column = blockIdx.x * 32 + threadIdx.x, row = blockIdx.y * 32 + threadIdx.y;
    for (int k = 0; k < 32; k += 8) {
        if (row + k < rows && column < columns) {
            tile[threadIdx.y + k][threadIdx.x] = x[(row + k) * columns + column];
        }
    }
    __syncthreads();
    int out_column = blockIdx.y * 32 + threadIdx.x, out_row = blockIdx.x * 32 + threadIdx.y;
    for (int k = 0; k < 32; k += 8) {
        if (out_row + k < columns && out_column < rows) {
            y[(out_row + k) * rows + out_column] = tile[threadIdx.x][threadIdx.y + k];
        }
    }
}

// Each block reverses its particles. Launch: up to 128 threads, n = blocks * threads.
extern "C" __global__ void reverse_particles(float* x, float* y, int* cell, int n) {
    __shared__ __align__(16) Particle held[128];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) held[threadIdx.x] = Particle{x[i], y[i], cell[i]};
    __syncthreads();
    int first = blockIdx.x * blockDim.x, here = min((int)blockDim.x, n - first);
    if (i >= n) return;
    const Particle& other = held[here - 1 - threadIdx.x];
    x[i] = other.x;
    y[i] = other.y;
    cell[i] = other.cell;
}

// sums: [2 blocks, 3] of floats, doubles and integers, through one template. Launch: 64 threads.
extern "C" __global__ void template_sums(double* sums, const float* x) {
    int i = blockIdx.x * 64 + threadIdx.x;
    double* row = sums + 3 * blockIdx.x;
    float f = block_sum<float, 64>(x[i]);
    double d = block_sum<double, 64>((double)x[i] * x[i]);
    int n = block_sum<int, 64>(x[i] > 0.0f);
    if (threadIdx.x == 0) {
        row[0] = f;
        row[1] = d;
        row[2] = n;
    }
}

// Three arrays cut from one dynamic buffer: counts (int), sums (double, 8-byte aligned), flags.
// Launch: any threads T; shared: 8 T + 4 T + T bytes.
extern "C" __global__ void carved(double* out, const float* x, int n) {
    extern __shared__ __align__(16) unsigned char raw[];
    double* sums = reinterpret_cast<double*>(raw);
    int* counts = reinterpret_cast<int*>(sums + blockDim.x);
    unsigned char* flags = reinterpret_cast<unsigned char*>(counts + blockDim.x);
    int t = threadIdx.x;
    sums[t] = 0.0;
    counts[t] = 0;
    for (int i = blockIdx.x * blockDim.x + t; i < n; i += gridDim.x * blockDim.x) {
        sums[t] += x[i];
        counts[t]++;
    }
    flags[t] = counts[t] & 1;
    __syncthreads();
    int other = blockDim.x - 1 - t;
    double* row = out + 3 * (blockIdx.x * blockDim.x + t);
    row[0] = sums[other];
    row[1] = counts[other];
    row[2] = flags[other];
}

// out: [threads, 3], the barrier's count, "and" and "or" of x != 0. Launch: one block.
extern "C" __global__ void votes_of_block(int* out, const int* x, int n) {
    int t = threadIdx.x;
    if (t >= n) return;  // threads that have returned are not counted
    out[3 * t] = __syncthreads_count(x[t]);
    out[3 * t + 1] = __syncthreads_and(x[t]) != 0;
    out[3 * t + 2] = __syncthreads_or(x[t]) != 0;
}
