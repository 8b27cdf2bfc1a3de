// The source line of a machine instruction.
#pragma once
#include <cstdint>
#include <string>

namespace lowgraph {

// "layernorm.cu:10": the line of the user's own files that the instruction was compiled from. Empty:
// the instruction is in none of the loaded images, or the machine has no addr2line (binutils).
// Starts a process: for a fault, of which a context has one.
std::string source_line(uint64_t instruction);

}  // namespace lowgraph
