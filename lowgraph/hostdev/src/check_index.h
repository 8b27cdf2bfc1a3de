// An index outside its array (-fsanitize=bounds-strict is told the index, not the address): held
// back until the access that it is for names the memory.
#pragma once
#include "check_places.h"

namespace lowgraph {

// The running thread is about to use the index. file, type: of static storage duration.
void hold_index(const char* file, int line, const char* type, int64_t index);
// The same for a local array; type: "name 'float [4]'". Tells it.
void tell_local_index(const char* file, int line, const char* type, int64_t index);
// What is held back is for this access if it is in the same line; else it is told alone. The text:
// "index 32 of an array of type 'float [32]'", or "".
std::string index_of(const Access& access);
void tell_index();  // the block is over: alone

}  // namespace lowgraph
