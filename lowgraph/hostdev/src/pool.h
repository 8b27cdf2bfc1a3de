// The handle of the device's default memory pool.
#pragma once
#include <cuda.h>

namespace lowgraph {

CUmemoryPool default_pool();

}  // namespace lowgraph
