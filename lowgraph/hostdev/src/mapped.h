// Memory without addresses of its own, and reserved addresses that it is mapped to. The codes are
// recorded rows of a real driver. All need big_lock.
#pragma once
#include "entry.h"

namespace lowgraph {

constexpr size_t map_piece = size_t{2} << 20;  // sizes and addresses are multiples of it

CUresult reserve_range(size_t bytes, size_t alignment, uint64_t* start);
CUresult free_range(uint64_t start, size_t bytes);  // as a whole, and with nothing mapped to it
CUresult create_physical(size_t bytes, CUmemGenericAllocationHandle* handle);
CUresult release_physical(CUmemGenericAllocationHandle handle);  // it stays while it is mapped
bool is_physical(CUmemGenericAllocationHandle handle);
// As a whole only: NOT_SUPPORTED for a part, as the driver answers.
CUresult map_physical(uint64_t start, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle);
CUresult unmap_range(uint64_t start, size_t bytes, Lock& lock);  // waits for the device
CUresult set_range_access(uint64_t start, size_t bytes, CUmemAccess_flags access, Lock& lock);
CUresult range_access(uint64_t address, unsigned long long* access);
CUresult physical_at(uint64_t address, CUmemGenericAllocationHandle* handle);  // one more reference
void forget_mappings();  // the last context's end

}  // namespace lowgraph
