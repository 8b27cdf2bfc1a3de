// Copies of whole structs by a kernel. What nobody has written of one, its padding mostly, is not
// used by that, and is not written in the copy either.
#pragma once
#include "check.h"
#include "check_bits.h"

namespace lowgraph {

// A write of 8 bytes or more was seen, to memory with these bits.
void note_wide_write(const Access& access, const WrittenBits& written);
// The access reads memory with these bits, of which some are unset. True: some are set, and it is the
// source of the copy whose write was noted last (the compiler announces the write first).
bool copies_holes(const Access& access, const WrittenBits& written);

}  // namespace lowgraph
