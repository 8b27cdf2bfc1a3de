// CUDA's own half precision header, and after it what that one has for the GPU alone.
#pragma once
#include_next <cuda_fp16.h>

#include "cuda_on_host/half_functions.h"

template <>
struct LowgraphNarrow<__half> {
    using pair = __half2;
    static __half of(double x) { return __float2half_rn(lowgraph_to_odd(x)); }
};
template <>
struct LowgraphNarrowPair<__half2> {
    using element = __half;
};
LOWGRAPH_NARROW_TO_ALL(half, __half)
