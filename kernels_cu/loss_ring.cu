// A ring of records in mapped pinned memory: the graph writes a step's loss, and what is known of
// its gradients, the host reads without a sync. lowgraph/ops/loss_ring.py holds the same record as
// a NumPy dtype, and the reading side.

#include "common/control.cuh"   // Control
#include "common/gradient.cuh"  // GradientStats

struct LossRecord {
    long long step;    // the record holds if this is the step asked for, before and after reading
    double norm;       // of the gradients, before clipping
    long long masked;  // gradients that were not finite
    float loss;
    float lr;
};

static_assert(sizeof(LossRecord) == 32, "lowgraph/ops/loss_ring.py holds the same layout");

// Overwrites record step % slots of ring [slots].
// Launch: block 1, grid 1.
// The tag is taken away first: a reader of the older step must not see its tag beside the new loss.
// Each fence orders the writes as the host sees them.
extern "C" __global__ void loss_ring_write(
    volatile LossRecord* ring, const float* __restrict__ loss,
    const GradientStats* __restrict__ stats, const Control* __restrict__ control, int slots)
{
    long long step = control->step, masked = stats->masked;  // all read before the first fence
    double norm = stats->norm;
    float found = loss[0], lr = control->lr;
    volatile LossRecord* record = ring + step % slots;
    record->step = -1;
    __threadfence_system();
    record->norm = norm;
    record->masked = masked;
    record->loss = found;
    record->lr = lr;
    __threadfence_system();
    record->step = step;  // the kernel's end is a fence too
}
