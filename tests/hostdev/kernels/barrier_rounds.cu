// Counts the rounds in which each thread has seen its neighbour's number of the round.
extern "C" __global__ void barrier_rounds(int* out, int rounds)
{
    __shared__ int seen[1024];
    int count = 0, next = (threadIdx.x + 1) % blockDim.x;
    for (int round = 0; round < rounds; ++round) {
        seen[threadIdx.x] = round;
        __syncthreads();
        count += seen[next] == round;
        __syncthreads();
    }
    out[blockIdx.x * blockDim.x + threadIdx.x] = count;
}
