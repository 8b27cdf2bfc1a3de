// What a process that checks tells at its end, to `python -m lowgraph check` or to people.
#pragma once

namespace lowgraph {

// From now on there is a report when the process ends: a file named by the process's number in the
// folder LOWGRAPH_HOST_CHECK_REPORT, which was read when this library was loaded, or else a line on
// stderr if something was wrong and nobody has asked for the findings.
void begin_report();

}  // namespace lowgraph
