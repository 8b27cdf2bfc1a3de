// Kernels with one bug each in how they use memory, and clean ones (names end in _clean).
//
// One block of 32 threads; x and y have n = 32 floats in slices of those names unless memory.py says
// otherwise. A line with a bug names its kind and the memory: the tests read that from here.

extern "C" __global__ void past_end(float* y, const float* x, int n) {
    int i = threadIdx.x;
    if (i < n) y[i] = x[i + 1];  // BUG out-of-bounds x
}
extern "C" __global__ void past_end_clean(float* y, const float* x, int n) {
    int i = threadIdx.x;
    if (i + 1 < n) y[i] = x[i + 1];
}
// n = 64: the slice ends at a multiple of 256 bytes.
extern "C" __global__ void past_whole_end(float* y, const float* x, int n) {
    int i = 2 * threadIdx.x + 2;
    y[i - 1] = x[i];  // BUG out-of-bounds x
}
extern "C" __global__ void write_past_end(float* y, const float* x, int n) {
    int i = threadIdx.x;
    y[i + 1] = x[i];  // BUG out-of-bounds y
}
extern "C" __global__ void before_start(float* y, const float* x, int n) {
    int i = threadIdx.x;
    y[i] = x[i - 1];  // BUG out-of-bounds x
}
// x is null.
extern "C" __global__ void null_pointer(float* y, const float* x, int n) {
    y[threadIdx.x] = x[threadIdx.x];  // BUG out-of-bounds None
}
// y has 4 floats.
extern "C" __global__ void atomic_past_end(float* y, const float* x, int n) {
    atomicAdd(&y[threadIdx.x % 5], x[threadIdx.x]);  // BUG out-of-bounds y
}
extern "C" __global__ void atomic_clean(float* y, const float* x, int n) {
    atomicAdd(&y[threadIdx.x % 4], x[threadIdx.x]);
}
extern "C" __global__ void cached_past_end(float* y, const float* x, int n) {
    int i = threadIdx.x;
    y[i] = __ldg(x + i + 1);  // BUG out-of-bounds x
}

// x is a slice that was given back.
extern "C" __global__ void freed_slice(float* y, const float* x, int n) {
    y[threadIdx.x] = x[threadIdx.x];  // BUG use-after-free gone
}
// y is an allocation that was freed.
extern "C" __global__ void freed_allocation(float* y, const float* x, int n) {
    y[threadIdx.x] = x[threadIdx.x];  // BUG use-after-free allocation of 1024 bytes
}

// Nobody has written x, a slice named blank.
extern "C" __global__ void unwritten(float* y, const float* x, int n) {
    y[threadIdx.x] = x[threadIdx.x];  // BUG uninitialised-read blank
}
// x is a copy of one, the first half of which a memset has filled.
extern "C" __global__ void unwritten_copy(float* y, const float* x, int n) {
    y[threadIdx.x] = x[threadIdx.x];  // BUG uninitialised-read copied
}
extern "C" __global__ void unwritten_sum(float* y, const float* x, int n) {
    y[threadIdx.x] += x[threadIdx.x];  // BUG uninitialised-read blank
}
// x is a slice whose block was written under another name, and given back.
extern "C" __global__ void unwritten_again(float* y, const float* x, int n) {
    y[threadIdx.x] = x[threadIdx.x];  // BUG uninitialised-read again
}
// x was filled by a memset; then by this kernel.
extern "C" __global__ void written_clean(float* y, const float* x, int n) {
    y[threadIdx.x] = x[threadIdx.x];
}

extern "C" __global__ void vector_load(float* y, const float* x, int n) {
    const float4* wide = reinterpret_cast<const float4*>(x + 1);
    if (threadIdx.x < 7) y[threadIdx.x] = wide[threadIdx.x].y;  // BUG misaligned x
}
extern "C" __global__ void double_store(float* y, const float* x, int n) {
    double* wide = reinterpret_cast<double*>(y + 1);
    if (threadIdx.x == 0) wide[0] = x[0];  // BUG misaligned y
}
extern "C" __global__ void vector_load_clean(float* y, const float* x, int n) {
    const float4* wide = reinterpret_cast<const float4*>(x);
    if (threadIdx.x < 8) y[threadIdx.x] = wide[threadIdx.x].y;
}
// No access is wide here: a compiler for a GPU may make one of the promise.
extern "C" __global__ void broken_promise(float* y, const float* x, int n) {
    const void* from = __builtin_assume_aligned(x + 1, 16);  // BUG misaligned x
    if (threadIdx.x < 7) y[threadIdx.x] = static_cast<const float*>(from)[threadIdx.x];
}
extern "C" __global__ void kept_promise_clean(float* y, const float* x, int n) {
    const void* from = __builtin_assume_aligned(x + 1, 16, 4);
    if (threadIdx.x < 7) y[threadIdx.x] = static_cast<const float*>(from)[threadIdx.x];
}

// x is an array of the host's.
extern "C" __global__ void host_read(float* y, const float* x, int n) {
    y[threadIdx.x] = x[threadIdx.x];  // BUG host-pointer None
}
// y is one; the block must end before it is written.
extern "C" __global__ void host_write(float* y, const float* x, int n) {
    y[threadIdx.x] = x[threadIdx.x];  // BUG host-pointer None
}
// x is pinned.
extern "C" __global__ void pinned_clean(float* y, const float* x, int n) {
    y[threadIdx.x] = x[threadIdx.x];
}

extern "C" __global__ void tile_index(float* y, const float* x, int n) {
    __shared__ float tile[32];
    int i = threadIdx.x;
    tile[i] = x[i];
    __syncthreads();
    y[i] = tile[i + 1];  // BUG out-of-bounds tile
}
extern "C" __global__ void tile_row(float* y, const float* x, int n) {
    __shared__ float tile[2][32];
    int i = threadIdx.x;
    tile[0][i] = tile[1][i] = x[i];
    __syncthreads();
    y[i] = tile[0][i + 1];  // BUG out-of-bounds tile
}
extern "C" __global__ void tile_pointer(float* y, const float* x, int n) {
    __shared__ float tile[32];
    __shared__ float other[32];
    float* p = n > 0 ? tile : other;
    int i = threadIdx.x;
    tile[i] = x[i];
    other[i] = x[i];
    __syncthreads();
    y[i] = p[i + 1];  // BUG out-of-bounds tile
}
extern "C" __global__ void tile_clean(float* y, const float* x, int n) {
    __shared__ float tile[32][33];
    int i = threadIdx.x;
    for (int row = 0; row < 32; ++row) tile[row][i] = x[i] + row;
    __syncthreads();
    y[i] = tile[i][31 - i];
}
// One instruction reads the tile, then x: of what is kept about the one nothing is left for the other.
// x is pinned here, and in the next kernel nobody has written it.
extern "C" __global__ void tile_then_pinned_clean(float* y, const float* x, int n) {
    __shared__ float tile[32];
    int i = threadIdx.x;
    tile[i] = 1.0f;
    const float* from = tile;
    float sum = 0.0f;
    for (int pass = 0; pass < n / 16; ++pass, from = x) sum += from[i];
    y[i] = sum;
}
extern "C" __global__ void tile_then_unwritten(float* y, const float* x, int n) {
    __shared__ float tile[32];
    int i = threadIdx.x;
    tile[i] = 1.0f;
    const float* from = tile;
    float sum = 0.0f;
    for (int pass = 0; pass < n / 16; ++pass, from = x) sum += from[i];  // BUG uninitialised-read blank
    y[i] = sum;
}
// 124 bytes of dynamic shared memory.
extern "C" __global__ void scratch(float* y, const float* x, int n) {
    extern __shared__ float words[];
    int i = threadIdx.x;
    words[i] = x[i];  // BUG out-of-bounds dynamic shared memory
    y[i] = x[i];
}
// 128 bytes, two blocks: the second finds nothing of the first one's.
extern "C" __global__ void scratch_unwritten(float* y, const float* x, int n) {
    extern __shared__ float words[];
    int i = threadIdx.x;
    if (blockIdx.x == 0) words[i] = x[i];
    if (blockIdx.x == 1) y[i] = words[i];  // BUG uninitialised-read dynamic shared memory
}
extern "C" __global__ void tile_unwritten(float* y, const float* x, int n) {
    __shared__ float tile[64];
    int i = threadIdx.x;
    tile[i] = x[i];
    __syncthreads();
    y[i] = tile[i + 32];  // BUG uninitialised-read tile
}

__device__ float table[4];
extern "C" __global__ void variable(float* y, const float* x, int n) {
    const float* p = table + (n > 0);
    y[threadIdx.x] = p[threadIdx.x % 4];  // BUG out-of-bounds table
}
extern "C" __global__ void variable_clean(float* y, const float* x, int n) {
    y[threadIdx.x] = table[threadIdx.x % 4];
}
// Local arrays, shuffles and fences are nobody's concern.
extern "C" __global__ void local_clean(float* y, const float* x, int n) {
    float kept[4];
    for (int k = 0; k < 4; ++k) kept[k] = x[(threadIdx.x + k) % n];
    float sum = kept[threadIdx.x % 4];
    for (int shift = 16; shift > 0; shift /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, shift);
    __threadfence();
    y[threadIdx.x] = sum;
}

// The heap of kernels: each thread's own piece, and one that a block hands round.
extern "C" __global__ void heap_clean(float* y, const float* x, int n) {
    __shared__ float* common;
    float* own = new float[threadIdx.x + 1];
    for (int i = 0; i <= threadIdx.x; i++) own[i] = x[threadIdx.x];
    if (threadIdx.x == 0) common = (float*)malloc(32 * sizeof(float));
    __syncthreads();
    common[31 - threadIdx.x] = own[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = common[threadIdx.x];
    __syncthreads();
    delete[] own;
    if (threadIdx.x == 0) free(common);
}
extern "C" __global__ void heap_past_end(float* y, const float* x, int n) {
    float* own = new float[4];
    for (int i = 0; i <= 4; i++)
        own[i] = x[i];  // BUG out-of-bounds memory that a kernel allocated
    y[threadIdx.x] = own[0];
    delete[] own;
}
extern "C" __global__ void heap_freed(float* y, const float* x, int n) {
    float* own = (float*)malloc(16);
    own[1] = x[1];
    free(own);
    y[threadIdx.x] = own[1];  // BUG use-after-free memory that a kernel allocated
}
extern "C" __global__ void heap_freed_twice(float* y, const float* x, int n) {
    float* own = new float[4];
    own[0] = x[0];
    delete[] own;
    delete[] own;  // BUG use-after-free memory that a kernel allocated
}
extern "C" __global__ void heap_race_clean(float* y, const float* x, int n) {
    for (int round = 0; round < 3; round++) {  // what one thread frees may not come to be another's
        float* own = new float[4];
        own[round] = x[threadIdx.x];
        y[threadIdx.x] = own[round];
        delete[] own;
    }
}
// A struct is copied with its padding, which nobody has written: no use of it.
struct Tagged {
    char tag;
    double value;
};
extern "C" __global__ void padding_clean(float* y, const float* x, int n) {
    __shared__ Tagged all[32], turned[32];
    all[threadIdx.x].tag = 1;
    all[threadIdx.x].value = x[threadIdx.x];
    __syncthreads();
    turned[threadIdx.x] = all[31 - threadIdx.x];
    y[threadIdx.x] = turned[threadIdx.x].tag + (float)turned[threadIdx.x].value;
}
// A member that is missing is missing in the copy, and told where it is used.
extern "C" __global__ void copied_hole(float* y, const float* x, int n) {
    __shared__ Tagged all[32], turned[32];
    all[threadIdx.x].value = x[threadIdx.x];
    __syncthreads();
    turned[threadIdx.x] = all[31 - threadIdx.x];
    y[threadIdx.x] = turned[threadIdx.x].tag +  // BUG uninitialised-read turned
                     (float)turned[threadIdx.x].value;
}
// What is read as one number is used.
extern "C" __global__ void half_a_number(float* y, const float* x, int n) {
    __shared__ __align__(8) float pair[64];
    pair[2 * threadIdx.x] = x[threadIdx.x];
    long long both = *(const long long*)&pair[2 * threadIdx.x];  // BUG uninitialised-read pair
    y[threadIdx.x] = (float)both;
}
// A copy of what is not there at all.
extern "C" __global__ void copied_nothing(float* y, const float* x, int n) {
    __shared__ Tagged all[32], turned[32];
    turned[threadIdx.x] = all[threadIdx.x];  // BUG uninitialised-read all
    y[threadIdx.x] = x[threadIdx.x] + (float)turned[threadIdx.x].value;
}

// Shared memory that no line writes, or none reads: the compiler would make 0, or nothing, of it.
extern "C" __global__ void never_written(float* y, const float* x, int n) {
    __shared__ float tile[32];
    y[threadIdx.x] = x[threadIdx.x] + tile[31 - threadIdx.x];  // BUG uninitialised-read tile
}
extern "C" __global__ void never_read(float* y, const float* x, int n) {
    __shared__ float tile[32];
    tile[threadIdx.x + 1] = x[threadIdx.x];  // BUG out-of-bounds tile
    y[threadIdx.x] = x[threadIdx.x];
}
