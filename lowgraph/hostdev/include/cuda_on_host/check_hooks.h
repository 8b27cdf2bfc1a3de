// The check build: what the compiler's instrumentation calls, handed on to the checker in libcuda.
// Its runtimes are not linked. Defined in each image and hidden, so that a sanitizer's own runtime
// in the same process neither gets these calls nor is shadowed.
#pragma once
#ifdef LOWGRAPH_CHECK

#ifdef __clang__
#define LOWGRAPH_PASSING_ON
#else
#define LOWGRAPH_PASSING_ON optimize("optimize-sibling-calls"),  // a jump and not a second call
#endif
#define LOWGRAPH_HOOK                                                                        \
    extern "C" __attribute__((LOWGRAPH_PASSING_ON visibility("hidden"), noinline,            \
                              section("lowgraph_hooks"), no_sanitize("thread", "undefined")))

// ---- plain and volatile accesses (-fsanitize=thread) ----
// Others run before the checker hears of a read, not between that and the read itself: it would give
// what they wrote, and not be known to come after it.
#define LOWGRAPH_HOOKS_OF(bytes)                                                             \
    LOWGRAPH_HOOK void __tsan_read##bytes(void* p) {                                         \
        lowgraph_check_read(p, bytes, LOWGRAPH_CALLER);                                      \
    }                                                                                        \
    LOWGRAPH_HOOK void __tsan_write##bytes(void* p) {                                        \
        lowgraph_check_write(p, bytes, LOWGRAPH_CALLER);                                     \
    }                                                                                        \
    LOWGRAPH_HOOK void __tsan_unaligned_read##bytes(void* p) {                               \
        lowgraph_check_read(p, bytes, LOWGRAPH_CALLER);                                      \
    }                                                                                        \
    LOWGRAPH_HOOK void __tsan_unaligned_write##bytes(void* p) {                              \
        lowgraph_check_write(p, bytes, LOWGRAPH_CALLER);                                     \
    }                                                                                        \
    LOWGRAPH_HOOK void __tsan_volatile_read##bytes(void* p) {                                \
        lowgraph_polls();                                                                    \
        lowgraph_check_atomic(p, bytes, 0, __ATOMIC_RELAXED, LOWGRAPH_CALLER);               \
    }                                                                                        \
    LOWGRAPH_HOOK void __tsan_volatile_write##bytes(void* p) {                               \
        lowgraph_check_atomic(p, bytes, 2, __ATOMIC_RELAXED, LOWGRAPH_CALLER);               \
    }                                                                                        \
    LOWGRAPH_HOOK void __tsan_unaligned_volatile_read##bytes(void* p) {                      \
        lowgraph_polls();                                                                    \
        lowgraph_check_atomic(p, bytes, 0, __ATOMIC_RELAXED, LOWGRAPH_CALLER);               \
    }                                                                                        \
    LOWGRAPH_HOOK void __tsan_unaligned_volatile_write##bytes(void* p) {                     \
        lowgraph_check_atomic(p, bytes, 2, __ATOMIC_RELAXED, LOWGRAPH_CALLER);               \
    }
LOWGRAPH_HOOKS_OF(1)
LOWGRAPH_HOOKS_OF(2)
LOWGRAPH_HOOKS_OF(4)
LOWGRAPH_HOOKS_OF(8)
LOWGRAPH_HOOKS_OF(16)
LOWGRAPH_HOOK void __tsan_read_range(void* p, unsigned long bytes) {
    lowgraph_check_read(p, (uint32_t)bytes, LOWGRAPH_CALLER);
}
LOWGRAPH_HOOK void __tsan_write_range(void* p, unsigned long bytes) {
    lowgraph_check_write(p, (uint32_t)bytes, LOWGRAPH_CALLER);
}
LOWGRAPH_HOOK void __tsan_init() {}
LOWGRAPH_HOOK void __tsan_func_entry(void*) {}
LOWGRAPH_HOOK void __tsan_func_exit() {}
LOWGRAPH_HOOK void __tsan_vptr_update(void** p, void*) {
    lowgraph_check_write(p, sizeof *p, LOWGRAPH_CALLER);
}
LOWGRAPH_HOOK void __tsan_vptr_read(void** p) {
    lowgraph_check_read(p, sizeof *p, LOWGRAPH_CALLER);
}

// ---- the compiler's atomic builtins, written in a kernel itself ----
#define LOWGRAPH_ATOMIC_RMW(bits, type, name, builtin)                                       \
    LOWGRAPH_HOOK type __tsan_atomic##bits##_##name(volatile void* p, type v, int order) {   \
        lowgraph_check_atomic((const void*)p, bits / 8, 1, order, LOWGRAPH_CALLER);          \
        return builtin((volatile type*)p, v, __ATOMIC_SEQ_CST);                              \
    }
#define LOWGRAPH_ATOMIC_CAS(bits, type, name)                                                \
    LOWGRAPH_HOOK bool __tsan_atomic##bits##_compare_exchange_##name(                        \
        volatile void* p, void* seen, type v, int order, int) {                              \
        lowgraph_check_atomic((const void*)p, bits / 8, 1, order, LOWGRAPH_CALLER);          \
        return __atomic_compare_exchange_n((volatile type*)p, (type*)seen, v, false,         \
                                           __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);              \
    }
#define LOWGRAPH_ATOMICS_OF(bits, type)                                                      \
    LOWGRAPH_HOOK type __tsan_atomic##bits##_load(const volatile void* p, int order) {       \
        lowgraph_polls();                                                                    \
        lowgraph_check_atomic((const void*)p, bits / 8, 0, order, LOWGRAPH_CALLER);          \
        return __atomic_load_n((const volatile type*)p, __ATOMIC_SEQ_CST);                   \
    }                                                                                        \
    LOWGRAPH_HOOK void __tsan_atomic##bits##_store(volatile void* p, type v, int order) {    \
        lowgraph_check_atomic((const void*)p, bits / 8, 2, order, LOWGRAPH_CALLER);          \
        __atomic_store_n((volatile type*)p, v, __ATOMIC_SEQ_CST);                            \
    }                                                                                        \
    LOWGRAPH_ATOMIC_RMW(bits, type, exchange, __atomic_exchange_n)                           \
    LOWGRAPH_ATOMIC_RMW(bits, type, fetch_add, __atomic_fetch_add)                           \
    LOWGRAPH_ATOMIC_RMW(bits, type, fetch_sub, __atomic_fetch_sub)                           \
    LOWGRAPH_ATOMIC_RMW(bits, type, fetch_and, __atomic_fetch_and)                           \
    LOWGRAPH_ATOMIC_RMW(bits, type, fetch_or, __atomic_fetch_or)                             \
    LOWGRAPH_ATOMIC_RMW(bits, type, fetch_xor, __atomic_fetch_xor)                           \
    LOWGRAPH_ATOMIC_RMW(bits, type, fetch_nand, __atomic_fetch_nand)                         \
    LOWGRAPH_ATOMIC_CAS(bits, type, strong)                                                  \
    LOWGRAPH_ATOMIC_CAS(bits, type, weak)
LOWGRAPH_ATOMICS_OF(8, unsigned char)
LOWGRAPH_ATOMICS_OF(16, unsigned short)
LOWGRAPH_ATOMICS_OF(32, unsigned int)
LOWGRAPH_ATOMICS_OF(64, unsigned long)
LOWGRAPH_HOOK void __tsan_atomic_thread_fence(int order) { lowgraph_check_fence(order); }
LOWGRAPH_HOOK void __tsan_atomic_signal_fence(int) {}

// ---- alignment and array bounds (-fsanitize=alignment,bounds-strict); layouts of the ABI ----
struct LowgraphPlace {
    const char* file;
    uint32_t line, column;
};
struct LowgraphType {
    uint16_t kind, info;
    char name[1];
};
struct LowgraphMismatch {
    LowgraphPlace place;
    const LowgraphType* type;
    unsigned char log_alignment, access;  // access 1: a store
};
// local_arrays.py marks the column of a local array's, and puts its name before the type's.
struct LowgraphBounds {
    LowgraphPlace place;
    const LowgraphType *array, *index;
};
LOWGRAPH_HOOK void __ubsan_handle_type_mismatch_v1(void* data, void* address) {
    const auto* what = static_cast<const LowgraphMismatch*>(data);
    lowgraph_check_alignment(what->place.file, (int)what->place.line,
                             1ull << what->log_alignment, (uint64_t)address, what->access == 1);
}
LOWGRAPH_HOOK void __ubsan_handle_out_of_bounds(void* data, void* index) {
    const auto* what = static_cast<const LowgraphBounds*>(data);
    // The index type's info: twice the logarithm of its bits, plus one if it is signed.
    const int unused = 64 - (1 << (what->index->info >> 1));
    const int shift = unused > 0 && (what->index->info & 1) ? unused : 0;
    const int64_t value = (int64_t)((uint64_t)index << shift) >> shift;
    const auto tell = what->place.column >> 31 ? lowgraph_check_local_index : lowgraph_check_index;
    tell(what->place.file, (int)what->place.line, what->array->name, value);
}

// ---- the heap of kernels (-Wl,--wrap; operators of the image's own) ----
LOWGRAPH_HOOK void* __wrap_malloc(size_t bytes) { return lowgraph_check_allocate(bytes); }
LOWGRAPH_HOOK void __wrap_free(void* memory) { lowgraph_check_free(memory, LOWGRAPH_CALLER); }
#define LOWGRAPH_OPERATOR                                                                    \
    __attribute__((LOWGRAPH_PASSING_ON visibility("hidden"), noinline,                       \
                   section("lowgraph_hooks"), no_sanitize("thread", "undefined")))
LOWGRAPH_OPERATOR void* operator new(size_t bytes) { return lowgraph_check_allocate(bytes); }
LOWGRAPH_OPERATOR void* operator new[](size_t bytes) { return lowgraph_check_allocate(bytes); }
LOWGRAPH_OPERATOR void operator delete(void* memory) noexcept {
    lowgraph_check_free(memory, LOWGRAPH_CALLER);
}
LOWGRAPH_OPERATOR void operator delete[](void* memory) noexcept {
    lowgraph_check_free(memory, LOWGRAPH_CALLER);
}
LOWGRAPH_OPERATOR void operator delete(void* memory, size_t) noexcept {
    lowgraph_check_free(memory, LOWGRAPH_CALLER);
}
LOWGRAPH_OPERATOR void operator delete[](void* memory, size_t) noexcept {
    lowgraph_check_free(memory, LOWGRAPH_CALLER);
}

// ---- copies too long to be inlined (-Wl,--wrap) ----
extern "C" {
void* __real_memcpy(void*, const void*, size_t);
void* __real_memmove(void*, const void*, size_t);
void* __real_memset(void*, int, size_t);
}
LOWGRAPH_HOOK void* __wrap_memcpy(void* to, const void* from, size_t bytes) {
    lowgraph_check_read(from, (uint32_t)bytes, LOWGRAPH_CALLER);
    lowgraph_check_write(to, (uint32_t)bytes, LOWGRAPH_CALLER);
    return __real_memcpy(to, from, bytes);
}
LOWGRAPH_HOOK void* __wrap_memmove(void* to, const void* from, size_t bytes) {
    lowgraph_check_read(from, (uint32_t)bytes, LOWGRAPH_CALLER);
    lowgraph_check_write(to, (uint32_t)bytes, LOWGRAPH_CALLER);
    return __real_memmove(to, from, bytes);
}
LOWGRAPH_HOOK void* __wrap_memset(void* to, int value, size_t bytes) {
    lowgraph_check_write(to, (uint32_t)bytes, LOWGRAPH_CALLER);
    return __real_memset(to, value, bytes);
}

#endif
