// Asynchronous copies to shared memory, by the primitives of <cuda_pipeline_primitives.h>.
//
// On a GPU the bytes come at some time between the start and the wait. In the check build and in
// shuffle mode they come as late as they may, at the wait, and from the start on 0xFF (NaN) lies in
// their place: a missing wait, one for too few batches and a start over what others still read all
// change results. Elsewhere they come at once: to put a copy off takes 10 ns, which was 4 % of a
// matrix product and 36 % of a kernel that does little but copy.
#pragma once

#ifdef LOWGRAPH_CHECK
#define LOWGRAPH_STARTED_AT LOWGRAPH_CALLER
#else
#define LOWGRAPH_STARTED_AT nullptr
#endif

// For constant bytes a move or two, not a call.
LOWGRAPH_INLINE void lowgraph_copy_at_once(void* to, const void* from, size_t bytes, size_t zeros) {
    if (zeros == 0) {
        memcpy(to, from, bytes);
    } else if (zeros == bytes) {
        memset(to, 0, bytes);
    } else {
        memcpy(to, from, bytes - zeros);
        memset((char*)to + bytes - zeros, 0, zeros);
    }
}

LOWGRAPH_INLINE void lowgraph_put_copy_off(void* to, const void* from, size_t bytes, size_t zeros,
                                           const void* pc) {
    lowgraph_copy_start(to, from, (uint32_t)bytes, (uint32_t)(bytes - zeros), pc);
    for (size_t i = 0; i < bytes / 4; i++) static_cast<volatile uint32_t*>(to)[i] = 0xffffffffu;
}

// bytes: 4, 8 or 16, of which the last `zeros` are not read but zeroed; both addresses are
// multiples of it.
LOWGRAPH_INLINE void __pipeline_memcpy_async(void* to, const void* from, size_t bytes,
                                             size_t zeros = 0, LOWGRAPH_HERE) {
    if ((bytes != 4 && bytes != 8 && bytes != 16) || zeros > bytes) {
        lowgraph_trap(719, "an asynchronous copy is one of 4, 8 or 16 bytes, zeros included", file,
                      line);
    }
#ifndef LOWGRAPH_CHECK  // which tells of both and goes on where it can
    const uint64_t read_at = zeros != bytes ? (uint64_t)from : 0;
    if (__builtin_expect((((uint64_t)to | read_at) & (bytes - 1)) != 0, 0)) {
        lowgraph_trap(716, "an address of an asynchronous copy is no multiple of its bytes", file,
                      line);
    }
    // A bad address is this line's, and not the wait's. The first byte will do, as it is aligned.
    if (zeros != bytes) (void)*static_cast<const volatile char*>(from);
#endif
    if (lowgraph_thread.late_copies == 0) {
        lowgraph_copy_at_once(to, from, bytes, zeros);
    } else {
        lowgraph_put_copy_off(to, from, bytes, zeros, LOWGRAPH_STARTED_AT);
    }
}

LOWGRAPH_INLINE void __pipeline_commit() {
    if (lowgraph_thread.late_copies != 0) lowgraph_copy_commit();
}

LOWGRAPH_INLINE void __pipeline_wait_prior(size_t newest) {
    if (lowgraph_thread.late_copies != 0) lowgraph_copy_wait(newest);
}
