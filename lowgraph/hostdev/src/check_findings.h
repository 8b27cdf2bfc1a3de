// The list of findings: each place once, with how often it was seen.
#pragma once
#include "check.h"

namespace lowgraph {

// True, and counted, if the place has a finding of that kind already: no need to make up its text.
bool count_again(const char* kind, const KernelEntry* kernel, uint64_t pc);
// report() for what has a name and is no allocation.
void report_named(const char* kind, const Site& where, const std::string& name,
                  const std::string& text, const Site* other = nullptr);
uint64_t findings_so_far();  // counted ones too
bool findings_were_read();   // by lowgraph_host_findings

}  // namespace lowgraph
