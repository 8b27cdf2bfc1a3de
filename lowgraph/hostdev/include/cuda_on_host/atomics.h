// Atomic operations on device and shared memory: relaxed, as on a GPU. Blocks run on several OS
// threads.
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
    return before;
}

template <class T>
static inline LOWGRAPH_QUIET T atomicAdd(T* p, lowgraph_same<T> v) {
    LOWGRAPH_TELL_ATOMIC(p);
    return lowgraph_update(p, [v](T old) { return (T)(old + v); });
}
template <class T>
static inline LOWGRAPH_QUIET T atomicSub(T* p, lowgraph_same<T> v) {
    LOWGRAPH_TELL_ATOMIC(p);
    return lowgraph_update(p, [v](T old) { return (T)(old - v); });
}
template <class T>
static inline LOWGRAPH_QUIET T atomicMax(T* p, lowgraph_same<T> v) {
    LOWGRAPH_TELL_ATOMIC(p);
    return lowgraph_update(p, [v](T old) { return old < v ? v : old; });
}
template <class T>
static inline LOWGRAPH_QUIET T atomicMin(T* p, lowgraph_same<T> v) {
    LOWGRAPH_TELL_ATOMIC(p);
    return lowgraph_update(p, [v](T old) { return v < old ? v : old; });
}
template <class T>
static inline LOWGRAPH_QUIET T atomicExch(T* p, lowgraph_same<T> v) {
    LOWGRAPH_TELL_ATOMIC(p);
    return lowgraph_update(p, [v](T) { return v; });
}
template <class T>
static inline LOWGRAPH_QUIET T atomicAnd(T* p, lowgraph_same<T> v) {
    LOWGRAPH_TELL_ATOMIC(p);
    return lowgraph_update(p, [v](T old) { return (T)(old & v); });
}
template <class T>
static inline LOWGRAPH_QUIET T atomicOr(T* p, lowgraph_same<T> v) {
    LOWGRAPH_TELL_ATOMIC(p);
    return lowgraph_update(p, [v](T old) { return (T)(old | v); });
}
template <class T>
static inline LOWGRAPH_QUIET T atomicXor(T* p, lowgraph_same<T> v) {
    LOWGRAPH_TELL_ATOMIC(p);
    return lowgraph_update(p, [v](T old) { return (T)(old ^ v); });
}
// Compared bit by bit, as on a GPU: a NaN that is there equals the same NaN.
template <class T>
static inline LOWGRAPH_QUIET T atomicCAS(T* p, lowgraph_same<T> expected, lowgraph_same<T> v) {
    LOWGRAPH_TELL_ATOMIC(p);
    return lowgraph_update(
        p, [expected, v](T old) { return memcmp(&old, &expected, sizeof(T)) == 0 ? v : old; });
}
static inline LOWGRAPH_QUIET unsigned atomicInc(unsigned* p, unsigned limit) {
    LOWGRAPH_TELL_ATOMIC(p);
    return lowgraph_update(p, [limit](unsigned old) { return old >= limit ? 0u : old + 1; });
}
static inline LOWGRAPH_QUIET unsigned atomicDec(unsigned* p, unsigned limit) {
    LOWGRAPH_TELL_ATOMIC(p);
    return lowgraph_update(
        p, [limit](unsigned old) { return old == 0 || old > limit ? limit : old - 1; });
}
