// What a .cu file is compiled against when the host device runs it: device-only CUDA C as C++ for
// the CPU. kernel_build.py puts this header in front of the file (-include) and finishes what the
// preprocessor cannot do: the LOWGRAPH_MARK_* words below never reach the compiler.
#pragma once

#define LOWGRAPH_HOST 1

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <type_traits>
#include <utility>

#include <vector_types.h>      // CUDA's own: float4, uint3, dim3 ...
#include <vector_functions.h>  // make_float4 ...

#include "cuda_on_host/abi.h"
#include "cuda_on_host/fiber_switch.h"
#include "cuda_on_host/quiet.h"

#include "cuda_on_host/sync.h"
#include "cuda_on_host/async_copies.h"
#include "cuda_on_host/atomics.h"
#include "cuda_on_host/intrinsics.h"
#include "cuda_on_host/conditional.h"
#include "cuda_on_host/bit_intrinsics.h"
#include "cuda_on_host/rounding.h"
#include "cuda_on_host/conversions.h"
#include "cuda_on_host/special_functions.h"
#include "cuda_on_host/memory_hints.h"
#include "cuda_on_host/warp_votes.h"
#include "cuda_on_host/stub.h"
#include "cuda_on_host/check_hooks.h"

// ---- qualifiers ----
#undef __global__
#undef __device__
#undef __host__
#undef __shared__
#undef __constant__
#undef __managed__
#undef __launch_bounds__
#undef __cluster_dims__
#undef __maxnreg__
#undef __grid_constant__
#undef __forceinline__
#undef __noinline__
#define __global__ LOWGRAPH_MARK_GLOBAL
#define __shared__ LOWGRAPH_MARK_SHARED
#define __launch_bounds__(...) LOWGRAPH_MARK_BOUNDS(__VA_ARGS__)
#define __device__
#define __host__
#define __constant__
#define __maxnreg__(...)
#define __grid_constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__  // empty: libstdc++ writes __attribute__((__noinline__))
#ifndef __clang__
#define __builtin_assume(condition) ((condition) ? (void)0 : __builtin_unreachable())
#endif

#ifdef LOWGRAPH_CHECK
// The compiler believes it unseen: the check build looks, and then makes nothing of it.
LOWGRAPH_INLINE void* lowgraph_assume_aligned(const void* p, size_t alignment, size_t offset = 0,
                                              LOWGRAPH_HERE) {
    const uint64_t address = (uint64_t)p - offset;
    if (address % alignment != 0) lowgraph_check_promise(file, line, alignment, address);
    return const_cast<void*>(p);
}
#define __builtin_assume_aligned lowgraph_assume_aligned
#endif

// ---- built-in variables ----
#define threadIdx LOWGRAPH_OWN(lowgraph_thread.thread)
#define blockIdx LOWGRAPH_OWN(lowgraph_thread.block)
#define blockDim LOWGRAPH_OWN(lowgraph_thread.block_size)
#define gridDim LOWGRAPH_OWN(lowgraph_thread.grid)
static constexpr int warpSize = 32;

// ---- what ends a thread, and what it prints ----
#include "assert.h"
#define __trap() lowgraph_trap(719, "__trap()", __FILE__, __LINE__)
#define printf(...) lowgraph_printf(__VA_ARGS__)
