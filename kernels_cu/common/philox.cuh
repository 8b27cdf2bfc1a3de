// Philox4x32-10, a counter-based random generator (Salmon, Moraes, Dror, Shaw: "Parallel random
// numbers: as easy as 1, 2, 3", SC 2011). The output is a pure function of (counter, key): no state
// to store, to seed per thread or to advance, so a graph's replay needs only the step number that
// the control block already holds. lowgraph/ops/philox.py is the same function in NumPy, bit for
// bit.
//
// Key: the run's seed (low, high word). Counter: (step low, step high, index, use), where `use`
// keeps the draws of different purposes apart:
#pragma once

#define USE_BATCH 0u    // batch_gather: index is the row of the batch
#define USE_DROPOUT 1u  // dropout: the counter is the random state's offset in place of the step

struct Philox {
    unsigned int word[4];
};

__device__ __forceinline__ Philox philox(
    unsigned long long step, unsigned int index, unsigned int use, unsigned long long seed)
{
    unsigned int k0 = (unsigned int)seed, k1 = (unsigned int)(seed >> 32);
    unsigned int c0 = (unsigned int)step, c1 = (unsigned int)(step >> 32), c2 = index, c3 = use;
    for (int round = 0; round < 10; round++) {
        unsigned long long a = 0xD2511F53ull * c0, b = 0xCD9E8D57ull * c2;
        c0 = (unsigned int)(b >> 32) ^ c1 ^ k0;
        c1 = (unsigned int)b;
        c2 = (unsigned int)(a >> 32) ^ c3 ^ k1;
        c3 = (unsigned int)a;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    Philox out = {{c0, c1, c2, c3}};
    return out;
}
