// What an evaluation keeps on the device: how many of its batches are done, and their losses.

// Overwrites losses[cursor[0]], of losses [slots], with loss[0] and raises cursor[0] by one; behind
// the last slot both stay as they are.
// Launch: block 1, grid 1, last in a batch.
extern "C" __global__ void evaluation_record(
    float* __restrict__ losses, long long* __restrict__ cursor, const float* __restrict__ loss,
    int slots)
{
    long long done = cursor[0];
    if (done >= slots) return;
    losses[done] = loss[0];
    cursor[0] = done + 1;
}
