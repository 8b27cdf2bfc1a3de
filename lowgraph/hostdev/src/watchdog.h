// The time limit of a launch, for kernels that never end; and of a wait for a word (words.h).
#pragma once
#include "block.h"

namespace lowgraph {

// Seconds of processor time that each thread of a launch may take from now on; 0: as long as it wants.
void set_kernel_seconds(double seconds);
double kernel_seconds();

// A launch begins: it gets its limit.
void start_clock(Job& job);

// While it lives the calling OS thread runs blocks of the job and may be stopped.
class OnTheClock {
public:
    explicit OnTheClock(Job& job);
    ~OnTheClock();
    OnTheClock(const OnTheClock&) = delete;
    OnTheClock& operator=(const OnTheClock&) = delete;

private:
    bool listed_ = false;
};

inline bool is_overdue(const Job& job) { return job.overdue.load(std::memory_order_relaxed); }

// Says of the launch that runs on this OS thread that it was stopped: a fault 702, in the check build a
// finding. pc: behind the instruction where the thread was; 0: not known. The caller ends the block.
void tell_overdue(uint64_t pc);
// The same, and ends the block.
[[noreturn]] void end_overdue(uint64_t pc);

}  // namespace lowgraph
