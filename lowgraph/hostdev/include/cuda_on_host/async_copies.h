// Asynchronous copies to shared memory, by the primitives of <cuda_pipeline_primitives.h>.
//
// On a GPU the bytes come at some time between the start and the wait. Here they come as late as
// they may, at the wait, and from the start on 0xFF (NaN) lies in their place: a missing wait, one
// for too few batches and a start over what others still read all change results.
#pragma once

#ifdef LOWGRAPH_CHECK
#define LOWGRAPH_STARTED_AT LOWGRAPH_CALLER
#else
#define LOWGRAPH_STARTED_AT nullptr
#endif

// bytes: 4, 8 or 16, of which the last `zeros` are not read but zeroed; both addresses are multiples
// of it.
LOWGRAPH_INLINE void __pipeline_memcpy_async(void* to, const void* from, size_t bytes,
                                             size_t zeros = 0, LOWGRAPH_HERE) {
    if ((bytes != 4 && bytes != 8 && bytes != 16) || zeros > bytes) {
        lowgraph_trap(719, "an asynchronous copy is one of 4, 8 or 16 bytes, zeros included", file,
                      line);
    }
    const size_t read = bytes - zeros;
#ifndef LOWGRAPH_CHECK  // which tells of it and goes on
    if ((((uint64_t)to | (read != 0 ? (uint64_t)from : 0)) & (bytes - 1)) != 0) {
        lowgraph_trap(716, "an address of an asynchronous copy is no multiple of its bytes", file,
                      line);
    }
#endif
    lowgraph_copy_start(to, from, (uint32_t)bytes, (uint32_t)read, LOWGRAPH_STARTED_AT);
    // Touched here, so that a bad address is this line's and not the wait's.
    if (read != 0) (void)*static_cast<const volatile char*>(from);
    for (size_t i = 0; i < bytes / 4; i++) static_cast<volatile uint32_t*>(to)[i] = 0xffffffffu;
}

LOWGRAPH_INLINE void __pipeline_commit() { lowgraph_copy_commit(); }

LOWGRAPH_INLINE void __pipeline_wait_prior(size_t newest) { lowgraph_copy_wait(newest); }
