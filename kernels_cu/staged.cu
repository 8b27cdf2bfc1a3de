// Batches that the host stages in mapped pinned memory, copied to where a step reads them.

// Overwrites out [elements] with slot (counter[0] + ahead) % slots of ring [slots,elements].
// counter: the running step's number, or any other count on the device that the host knows too, so
// that it can write the slot of step n before it launches step n.
// elements is a multiple of 4; out and ring are aligned to 16 bytes.
// Launch: block 128, grid ceil(elements/1024); eight elements a thread, the block's first 512 and
// then the next 512, so that both reads of the bus are whole lines and in flight together.
extern "C" __global__ void __launch_bounds__(128) staged_copy(
    float* __restrict__ out, const float* __restrict__ ring, const long long* __restrict__ counter,
    int ahead, long long elements, int slots)
{
    long long at = (long long)blockIdx.x * 1024 + threadIdx.x * 4;
    const float* slot = ring + (counter[0] + ahead) % slots * elements;
    bool first = at < elements, second = at + 512 < elements;
    float4 here, there;
    if (first) here = *reinterpret_cast<const float4*>(slot + at);
    if (second) there = *reinterpret_cast<const float4*>(slot + at + 512);
    if (first) *reinterpret_cast<float4*>(out + at) = here;
    if (second) *reinterpret_cast<float4*>(out + at + 512) = there;
}
