// Atomic operations on device and shared memory: relaxed, as on a GPU. Blocks run on several OS
// threads. Every atomic holds for the whole process here; to the check build those of block scope
// are none to another block.
#pragma once

template <class T>
struct LowgraphSame {  // keeps the second argument out of the deduction: atomicAdd(float*, 1) must
                       // compile
    using type = T;
};
template <class T>
using lowgraph_same = typename LowgraphSame<T>::type;

// Replaces *p by change(*p) in one step; the value before.
template <class T, class Change>
static inline LOWGRAPH_QUIET T lowgraph_update(T* p, Change change) {
    static_assert(sizeof(T) == 2 || sizeof(T) == 4 || sizeof(T) == 8,
                  "atomics work on 2, 4 or 8 bytes");
    using Bits = std::conditional_t<sizeof(T) == 8, uint64_t,
                                    std::conditional_t<sizeof(T) == 4, uint32_t, uint16_t>>;
    Bits* bits = reinterpret_cast<Bits*>(p);
    Bits seen = __atomic_load_n(bits, __ATOMIC_RELAXED), wanted;
    T before, after;
    do {
        memcpy(static_cast<void*>(&before), &seen, sizeof(T));
        after = change(before);
        memcpy(&wanted, static_cast<const void*>(&after), sizeof(T));
    } while (!__atomic_compare_exchange_n(bits, &seen, wanted, true, __ATOMIC_RELAXED,
                                          __ATOMIC_RELAXED));
    lowgraph_polls();
    return before;
}

#define LOWGRAPH_ATOMIC(name, scope, tell, becomes)                                       \
    template <class T>                                                                    \
    static inline LOWGRAPH_QUIET T name##scope(T* p, lowgraph_same<T> v) {                \
        tell(p);                                                                          \
        return lowgraph_update(p, [v](T old) { return (T)(becomes); });                   \
    }
// Compared bit by bit, as on a GPU: a NaN that is there equals the same NaN.
#define LOWGRAPH_ATOMICS(scope, tell)                                                     \
    LOWGRAPH_ATOMIC(atomicAdd, scope, tell, old + v)                                      \
    LOWGRAPH_ATOMIC(atomicSub, scope, tell, old - v)                                      \
    LOWGRAPH_ATOMIC(atomicMax, scope, tell, old < v ? v : old)                            \
    LOWGRAPH_ATOMIC(atomicMin, scope, tell, v < old ? v : old)                            \
    LOWGRAPH_ATOMIC(atomicExch, scope, tell, ((void)old, v))                              \
    LOWGRAPH_ATOMIC(atomicAnd, scope, tell, old & v)                                      \
    LOWGRAPH_ATOMIC(atomicOr, scope, tell, old | v)                                       \
    LOWGRAPH_ATOMIC(atomicXor, scope, tell, old ^ v)                                      \
    template <class T>                                                                    \
    static inline LOWGRAPH_QUIET T atomicCAS##scope(T* p, lowgraph_same<T> expected,      \
                                                    lowgraph_same<T> v) {                 \
        tell(p);                                                                          \
        return lowgraph_update(p, [expected, v](T old) {                                  \
            return memcmp(&old, &expected, sizeof(T)) == 0 ? v : old;                     \
        });                                                                               \
    }                                                                                     \
    static inline LOWGRAPH_QUIET unsigned atomicInc##scope(unsigned* p, unsigned limit) { \
        tell(p);                                                                          \
        return lowgraph_update(p, [limit](unsigned old) { return old >= limit ? 0u : old + 1; }); \
    }                                                                                     \
    static inline LOWGRAPH_QUIET unsigned atomicDec##scope(unsigned* p, unsigned limit) { \
        tell(p);                                                                          \
        return lowgraph_update(                                                           \
            p, [limit](unsigned old) { return old == 0 || old > limit ? limit : old - 1; }); \
    }
LOWGRAPH_ATOMICS(, LOWGRAPH_TELL_ATOMIC)
LOWGRAPH_ATOMICS(_block, LOWGRAPH_TELL_BLOCK_ATOMIC)
LOWGRAPH_ATOMICS(_system, LOWGRAPH_TELL_ATOMIC)
#undef LOWGRAPH_ATOMICS
#undef LOWGRAPH_ATOMIC
