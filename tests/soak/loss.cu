// The loss of the micro-model, one entry a step, so that a run's whole history can be compared.

// losses[counter[0] - 1] = sum of the first m elements of y, in order.   Launch: one thread.
extern "C" __global__ void record_loss(float* losses, const long long* counter, const float* y,
                                       int m)
{
    float sum = 0.0f;
    for (int i = 0; i < m; ++i) sum += y[i];
    losses[counter[0] - 1] = sum;
}
