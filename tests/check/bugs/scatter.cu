// Indexed reads and writes: atomics between blocks, tables of pointers, a hash table.

// Adds row i of x [count,C] to row index[i] of table [rows,C].
// Launch: block 128, grid ceil(count*C/128).
extern "C" __global__ void scatter_add(
    float* table, const int* index, const float* x, int count, int C)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count * C) return;
    atomicAdd(&table[index[i / C] * C + i % C], x[i]);
}

// Adds to counts [bins] how often each value occurs in values [n].
// Launch: block 128, grid ceil(n/128).
extern "C" __global__ void histogram(int* counts, const unsigned char* values, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    atomicAdd(&counts[values[i]], 1);
}

// Overwrites out [rows,C] with the rows that table [rows] points at.
// Launch: block 64, grid (ceil(C/64), rows).
extern "C" __global__ void gather_rows(float* out, const float* const* table, int C)
{
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= C) return;
    const float* row = table[blockIdx.y];
    out[blockIdx.y * C + c] = row[c];
}

// Puts the values [n], each once, into keys [capacity], where -1 is a free place.
// Launch: block 64, grid ceil(n/64).
extern "C" __global__ void hash_insert(int* keys, const int* values, int n, int capacity)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned slot = values[i] * 2654435761u % capacity;
    while (true) {
        int seen = atomicCAS(&keys[slot], -1, values[i]);
        if (seen == -1 || seen == values[i]) return;
        slot = (slot + 1) % capacity;
    }
}
