// Launches of kernels that the checker could not look at: their images were compiled without checks.
#pragma once
#include "module.h"

namespace lowgraph {

// Counts a launch of a kernel whose image has no checks. Nothing is known of what it writes, so from
// now on all device memory counts as written.
void note_unchecked(const Function& function);

}  // namespace lowgraph
