// One spelling of three loop hints for nvcc, NVRTC, g++ and clang++.
//
// UNROLL   unroll fully on every compiler. g++ ignores `#pragma unroll`, and then keeps small
//          accumulator arrays in memory (GEMM: 1.8x slower).
// VECTOR   a loop over one thread's registers: unrolled on a GPU, so that the array is registers;
//          left alone on the host device, whose compiler makes vector instructions of what is
//          still a loop (GEMM: 1.8x faster than unrolled).
// IN_FLIGHT  a loop of unknown length whose loads do not depend on each other: 16 turns at a time
//          on a GPU, so that their loads are under way together. The order of its sums stays.
#pragma once

#if defined(__CUDACC__)
#define UNROLL _Pragma("unroll")
#define VECTOR _Pragma("unroll")
#define IN_FLIGHT _Pragma("unroll 16")
#elif defined(__clang__)
#define UNROLL _Pragma("unroll")
#define VECTOR
#define IN_FLIGHT
#else
#define UNROLL _Pragma("GCC unroll 64")
#define VECTOR
#define IN_FLIGHT
#endif
