// The race detector of the check build (check.h): who may have touched the same bytes at once.
//
// Works run one at a time while checking, and so do a launch's blocks and a block's threads: what
// is looked for is not the order that happened, but whether anything ordered it. All functions but
// race_start are called while the caller has the device to itself.
#pragma once
#include "check.h"

namespace lowgraph {

// From now on launches are watched. Called once, when checking is switched on.
void race_start();

// The CUDA thread that runs now is about to make an access, which may be made (bounds and state
// have been checked). A volatile access counts as atomic: neither can race with its like.
void race_access(const Access& access, Space space);

// The detector's time: what is ordered after an access made now has a later one.
uint32_t race_now();

// __threadfence, __threadfence_system; device false: __threadfence_block.
void race_fence(bool device);

// A copy or a memset touches [address, address + bytes); `what` is of static storage duration.
// Between race_work_begin and race_work_end.
void race_range(uint64_t address, uint64_t bytes, bool write);
void race_work_begin(const char* what);
void race_work_end();
// Stream-ordered memory comes and goes: its first and its last use.
void race_allocated(uint64_t address, uint64_t bytes);
void race_freed(uint64_t address);
// Memory that nobody has used yet: what was there before was something else.
void race_unused(uint64_t start, uint64_t end);

}  // namespace lowgraph
