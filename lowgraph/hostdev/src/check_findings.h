// The list of findings: each place, memory and access once, with how often it was seen.
#pragma once
#include "check.h"

namespace lowgraph {

// What an access is called in findings: "read", "write", "atomic update" ...
const char* verb(const Access& access);
// True, and counted, if there is such a finding already: no need to make up its text.
bool count_again(const char* kind, const Site& where, const std::string& memory);
// report() for memory that the caller has the name of. `address`: of the access; 0: none.
void report_named(const char* kind, const Site& where, const std::string& memory,
                  const std::string& text, const Site* other = nullptr, uint64_t address = 0);
uint64_t findings_so_far();  // counted ones too
bool findings_were_read();   // by lowgraph_host_findings

}  // namespace lowgraph
