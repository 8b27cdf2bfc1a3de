// How the functions of these headers are compiled: into the kernel's own frame, or, in the check
// build, out of line and without a call before each access, so that what they do inside is nobody's
// finding. What they do on the caller's behalf they tell the checker themselves, with its place.
#pragma once

#ifdef LOWGRAPH_CHECK
#define LOWGRAPH_QUIET __attribute__((noinline, no_sanitize("thread", "undefined")))
#define LOWGRAPH_INLINE static LOWGRAPH_QUIET
#define LOWGRAPH_CALLER __builtin_extract_return_addr(__builtin_return_address(0))

extern "C" {
// A plain access. pc: the address behind the call that announces it.
LOWGRAPH_ABI void lowgraph_check_read(const void* p, uint32_t bytes, const void* pc);
LOWGRAPH_ABI void lowgraph_check_write(const void* p, uint32_t bytes, const void* pc);
// An access made in a header: the compiler has not looked at its alignment.
LOWGRAPH_ABI void lowgraph_check_aligned(const void* p, uint32_t bytes, int write, const void* pc);
// What: 0 loads, 1 loads and stores, 2 stores, 3 loads and stores with the block's scope.
LOWGRAPH_ABI void lowgraph_check_atomic(const void* p, uint32_t bytes, int what, int order,
                                        const void* pc);
LOWGRAPH_ABI void lowgraph_check_fence(int order);
LOWGRAPH_ABI void lowgraph_check_block_fence();
LOWGRAPH_ABI void lowgraph_check_alignment(const char* file, int line, uint64_t alignment,
                                           uint64_t address, int write);
// A pointer that is promised to be aligned, and is not.
LOWGRAPH_ABI void lowgraph_check_promise(const char* file, int line, uint64_t alignment,
                                         uint64_t address);
// The heap of kernels.
LOWGRAPH_ABI void* lowgraph_check_allocate(uint64_t bytes);
LOWGRAPH_ABI void lowgraph_check_free(void* memory, const void* pc);
// An index outside of an array; type: "'float [4]'", of a local array "name 'float [4]'".
LOWGRAPH_ABI void lowgraph_check_index(const char* file, int line, const char* type, int64_t index);
LOWGRAPH_ABI void lowgraph_check_local_index(const char* file, int line, const char* type,
                                             int64_t index);
}

#define LOWGRAPH_TELL_READ(p) lowgraph_check_aligned(p, sizeof *(p), 0, LOWGRAPH_CALLER)
#define LOWGRAPH_TELL_WRITE(p) lowgraph_check_aligned(p, sizeof *(p), 1, LOWGRAPH_CALLER)
#define LOWGRAPH_TELL_ATOMIC(p) \
    lowgraph_check_atomic(p, sizeof *(p), 1, __ATOMIC_RELAXED, LOWGRAPH_CALLER)
#define LOWGRAPH_TELL_BLOCK_ATOMIC(p) \
    lowgraph_check_atomic(p, sizeof *(p), 3, __ATOMIC_RELAXED, LOWGRAPH_CALLER)
#define LOWGRAPH_TELL_FENCE() lowgraph_check_fence(__ATOMIC_SEQ_CST)
#define LOWGRAPH_TELL_BLOCK_FENCE() lowgraph_check_block_fence()

#else
#define LOWGRAPH_QUIET
#define LOWGRAPH_INLINE static inline __attribute__((always_inline))
#define LOWGRAPH_TELL_READ(p) ((void)0)
#define LOWGRAPH_TELL_WRITE(p) ((void)0)
#define LOWGRAPH_TELL_ATOMIC(p) ((void)0)
#define LOWGRAPH_TELL_BLOCK_ATOMIC(p) ((void)0)
#define LOWGRAPH_TELL_FENCE() ((void)0)
#define LOWGRAPH_TELL_BLOCK_FENCE() ((void)0)
#endif

// ---- reading the built-in variables ----
#ifdef LOWGRAPH_CHECK
// Through assembly, which the compiler does not instrument: they are read all the time.
static inline __attribute__((always_inline)) unsigned lowgraph_own(const unsigned& from) {
    unsigned value;
    asm("movl %1, %0" : "=r"(value) : "m"(from));
    return value;
}
template <class T>
static inline __attribute__((always_inline)) T lowgraph_own(const T& from) {
    return T{lowgraph_own(from.x), lowgraph_own(from.y), lowgraph_own(from.z)};
}
#define LOWGRAPH_OWN(variable) (lowgraph_own(variable))
#else
#define LOWGRAPH_OWN(variable) (variable)
#endif
