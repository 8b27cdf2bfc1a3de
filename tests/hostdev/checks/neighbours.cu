// What lies right beside a block's shared memory: launched by neighbours.py.
// Where the shared memory is: dynamic and static, as addresses.
extern "C" __global__ void addresses_clean(unsigned long long* out) {
    extern __shared__ float words[];
    __shared__ float tile[32];
    tile[threadIdx.x] = words[threadIdx.x] = 1.0f;
    __syncthreads();
    if (threadIdx.x == 0) out[0] = (unsigned long long)words;
    if (threadIdx.x == 1) out[1] = (unsigned long long)tile;
}
// The argument x is some way behind the tile; out[1]: where the tile is.
extern "C" __global__ void copy_clean(float* y, unsigned long long* out, const float* x) {
    __shared__ float tile[32];
    tile[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = tile[31 - threadIdx.x];
    if (threadIdx.x == 0) out[1] = (unsigned long long)tile;
}
extern "C" __global__ void behind(float* y, int bytes) {
    __shared__ float tile[32];
    tile[threadIdx.x] = 1.0f;
    const float* far = (const float*)((const char*)tile + bytes);
    y[threadIdx.x] = far[threadIdx.x];  // BUG out-of-bounds tile
}
