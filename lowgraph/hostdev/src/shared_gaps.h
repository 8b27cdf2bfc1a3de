// The gaps beside a kernel's static shared memory, which hostdev/assembly.py makes: an overflow of any
// of its variables, in either direction, goes there, and is seen when the block ends.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "engine.h"

namespace lowgraph {

constexpr uint64_t largest_gap = 4096;  // of a larger one, for an alignment, no more is looked at

// Those that touch a variable of the kernel; nothing for an image that was compiled without gaps.
std::optional<std::vector<SharedGap>> shared_gaps(const KernelEntry& kernel);

// ---- in the OS thread that runs the block; tail: its image's shared tail ----
void fill_gaps(const std::vector<SharedGap>& gaps, unsigned char* tail);
// Fills those that are new in this OS thread.
void begin_gaps(const std::vector<SharedGap>& gaps, unsigned char* tail);
// The first gap that somebody wrote to; null: none.
const SharedGap* broken_gap(const std::vector<SharedGap>& gaps, const unsigned char* tail);
// What was written there, by the nearer variable.
std::string damage_text(const SharedGap& gap, const unsigned char* tail);

}  // namespace lowgraph
