// grid_wait(): a kernel's first statement, by which it may be launched before the kernel ahead of
// it on its stream has ended (programmatic dependent launch, compute capability 9.0 and later).
//
// Its blocks then stand ready while the last ones of the kernel ahead still run, and wait here
// until that one has ended and all that it wrote can be read. The library sees the call in the
// source and launches such a kernel so; a kernel without it is launched behind the end of the one
// ahead. Without the launch's attribute, on earlier GPUs and on the host device it does nothing.
//
// What holds it together:
// - Nothing of global memory is read, written or fetched ahead of it, and no block returns ahead
//   of it: the kernel ahead may still be at work. Parameters and thread indices may be used.
// - Of several kernels in a row each waits for the whole of the one before, which has waited
//   itself: what any earlier kernel wrote is there, and what any reads may be overwritten. A grid
//   of which a block did not wait could end too early, and break that for those behind it.
// - The kernel behind may be launched as soon as every block of this one has begun. It waits, too.
// - No __restrict__ below here. Of a pointer that is const and restrict the compiler holds that
//   nobody writes what it points at while the kernel runs, and the kernel ahead does: it reads
//   there through the read-only cache, which keeps no order with the wait, and moves the read ahead
//   of it (seen in adamw's machine code). For the same reason there is no __ldg behind a grid_wait.
// Include it ahead of all else. tools/compile_kernels.py looks at what comes out.
#pragma once

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define __restrict__
#define __restrict
#endif

__device__ __forceinline__ void grid_wait()
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
