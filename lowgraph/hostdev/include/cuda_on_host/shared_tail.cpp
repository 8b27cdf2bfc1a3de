// The last thread-local variable of a kernel image: an overflow of its __shared__ variables ends
// here, where the engine finds it when the block is over, and not in the process's heap.
#include "abi.h"

extern "C" __attribute__((visibility("hidden"))) __thread unsigned char
    lowgraph_shared_tail[lowgraph::shared_tail_bytes] = {};
