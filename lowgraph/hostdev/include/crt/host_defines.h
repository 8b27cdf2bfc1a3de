// Stands in for CUDA's crt/host_defines.h, which the runtime's pip package leaves to the compiler's
// package. Only what CUDA's own host headers (vector_types.h, cuda_fp16.h, ...) need from a
// GNU-like compiler.
#ifndef LOWGRAPH_HOST_DEFINES_H
#define LOWGRAPH_HOST_DEFINES_H

#define __builtin_align__(n) __attribute__((aligned(n)))
#define __align__(n) __attribute__((aligned(n)))
#define __device_builtin__
#define __device_builtin_texture_type__
#define __device_builtin_surface_type__
#define __cudart_builtin__
#define CUDARTAPI
#define __host__
#define __device__
#define __global__
#define __shared__
#define __constant__
#define __managed__
#define __forceinline__ inline __attribute__((always_inline))
#define __inline_hint__
#define __grid_constant__
#define __cluster_dims__(...)
#define __launch_bounds__(...)
#define __maxnreg__(...)

#endif
