// How often each entry point was called, and the fault injection that tests ask for.
#pragma once
#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <string>

namespace lowgraph {

// One driver call by its public name ("cuMemAlloc": the version and stream suffixes are dropped).
struct Counter {
    std::string name;
    std::atomic<uint64_t> calls{0};
    std::atomic<uint64_t> fail_in{0};  // 1: the next call fails; 0: nothing planned
    std::atomic<int> fail_code{0};
};

// The counter of an entry point; made on first use, never destroyed.
Counter& counter_of(const char* entry_point);

// Counts one call; returns the injected code, or success.
CUresult count_call(Counter& counter);

}  // namespace lowgraph
