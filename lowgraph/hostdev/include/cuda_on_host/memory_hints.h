// Loads and stores with the cache hints that intrinsics.h lacks: plain accesses here.
#pragma once

template <class T>
static inline T __ldlu(const T* p) {
    return *p;
}
template <class T>
static inline T __ldcv(const T* p) {
    return *reinterpret_cast<const volatile T*>(p);
}
template <class T>
static inline void __stwb(T* p, lowgraph_same<T> v) {
    *p = v;
}
template <class T>
static inline void __stwt(T* p, lowgraph_same<T> v) {
    *p = v;
}
