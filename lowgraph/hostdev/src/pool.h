// Handles of the device's memory pools. All need big_lock.
#pragma once
#include <cuda.h>

namespace lowgraph {

CUmemoryPool default_pool();
CUmemoryPool current_pool();               // the one that cuMemAllocAsync takes from
bool is_pool(CUmemoryPool handle);         // live
bool set_current_pool(CUmemoryPool pool);  // false: not a live pool

}  // namespace lowgraph
