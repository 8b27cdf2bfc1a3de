// The shared memory of the block that runs now: its dynamic part and its __shared__ variables.
#pragma once
#include "check_places.h"
#include "images.h"

namespace lowgraph {

// Bytes behind each variable of an image that belong to none: kernel_build.py puts them there.
constexpr uint64_t red_zone = 256;

// In the block's shared memory, or near enough to be meant for it.
bool is_shared(uint64_t address);
// As find_place, for an address that is_shared.
bool shared_place(const Access& access, Place* place, Wrong* wrong);

// "4 bytes past the end of variable 'table' (64 bytes)".
std::string past_text(uint64_t past, const char* what, const Variable& variable);

}  // namespace lowgraph
