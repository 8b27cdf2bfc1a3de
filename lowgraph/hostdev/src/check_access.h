// One access of a kernel thread, looked at: what each hook calls.
#pragma once
#include "async_copies.h"
#include "check.h"

namespace lowgraph {

// loads: of an atomic operation, whether it reads too. False: the block has to end.
bool see(const Access& access, bool loads);
// An asynchronous copy of the running thread. Its bytes are nobody's from the start on, as if they
// had never been written, and there for its thread once they have arrived. False: as `see`.
bool see_copy_start(AsyncCopy& copy);
bool see_copy_arrive(const AsyncCopy& copy);
// An access of 1, 2, 4, 8 or 16 bytes must lie at a multiple of them on a GPU. For what the
// compiler has not looked at.
void look_at_alignment(const Access& access);
// `where` holds the access.
void report_misaligned(const Site& where, uint64_t alignment, uint64_t address);

}  // namespace lowgraph
