// Atomics with a scope. Every atomic here holds for the whole process, so a narrower or wider scope
// is the same operation.
#pragma once

#define LOWGRAPH_SCOPED(name)                                                     \
    template <class T, class... Args>                                             \
    static inline auto name##_block(T* p, Args... args)->decltype(name(p, args...)) { \
        return name(p, args...);                                                  \
    }                                                                             \
    template <class T, class... Args>                                             \
    static inline auto name##_system(T* p, Args... args)->decltype(name(p, args...)) { \
        return name(p, args...);                                                  \
    }
LOWGRAPH_SCOPED(atomicAdd)
LOWGRAPH_SCOPED(atomicSub)
LOWGRAPH_SCOPED(atomicMin)
LOWGRAPH_SCOPED(atomicMax)
LOWGRAPH_SCOPED(atomicInc)
LOWGRAPH_SCOPED(atomicDec)
LOWGRAPH_SCOPED(atomicAnd)
LOWGRAPH_SCOPED(atomicOr)
LOWGRAPH_SCOPED(atomicXor)
LOWGRAPH_SCOPED(atomicExch)
LOWGRAPH_SCOPED(atomicCAS)
#undef LOWGRAPH_SCOPED
