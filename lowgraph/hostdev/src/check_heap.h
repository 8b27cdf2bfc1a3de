// The heap of kernels: what malloc and new give in a kernel of the check build. It is the process's
// own memory, so without a list of it a pointer into it would be the host's.
#pragma once
#include "check_access.h"
#include "check_places.h"

namespace lowgraph {

// What all of it is called in findings: its pieces are too many for names.
inline constexpr char heap_name[] = "memory that a kernel allocated";
// Whether the address is in a piece of the heap, or right behind one. Then shared_place's terms hold:
// true, and where the access may go; or false, and what is wrong with it.
bool is_in_heap(uint64_t address);
bool heap_place(const Access& access, Place* place, Wrong* wrong);
// A launch begins: what earlier ones freed may be given out again. Not within a launch: what its
// threads did to a piece would race with what they do to the next one there.
void renew_heap();

}  // namespace lowgraph
