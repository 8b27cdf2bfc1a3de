// Copies bytes between two places of device memory: the price of a copy-in pin, one launch.
//
// out and in do not overlap. Launch: block 128, grid ceil(nbytes/2048); sixteen bytes a thread.

extern "C" __global__ void __launch_bounds__(128) copy_bytes(
    unsigned char* __restrict__ out, const unsigned char* __restrict__ in, long long nbytes)
{
    long long i = ((long long)blockIdx.x * blockDim.x + threadIdx.x) * 16;
    if (i >= nbytes) return;
    bool aligned = (((size_t)out | (size_t)in) & 15) == 0;
    if (aligned && i + 16 <= nbytes) {
        *reinterpret_cast<float4*>(out + i) = *reinterpret_cast<const float4*>(in + i);
        return;
    }
    for (long long end = i + 16 < nbytes ? i + 16 : nbytes; i < end; i++) out[i] = in[i];
}
