// The check build asked for by the environment, for programs without Python.
#pragma once
#include "model.h"

namespace lowgraph {

// At cuInit: switches to checking if LOWGRAPH_HOST_CHECK says so, and sets the time limit of
// LOWGRAPH_HOST_KERNEL_SECONDS. INVALID_VALUE for what those cannot hold; stderr tells.
CUresult begin_check();

}  // namespace lowgraph
