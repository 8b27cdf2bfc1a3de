// The switch from one CUDA thread of a block to another: both are fibers of one OS thread.
#pragma once

#if !defined(__x86_64__)
#error "the host device runs on x86-64 only: other CPUs need a fiber switch of their own here"
#endif

// Stores the caller's place in *save and goes on at `load`, a place that an earlier switch stored
// or that FiberStacks::prepare made. Inlined where the thread waits and resumed by an indirect
// jump: call and return stay paired, so the processor's return predictor is not upset (up to 2x),
// and the compiler saves only the registers that are live there. A system call (ucontext) costs 15
// times as much.
static inline __attribute__((always_inline)) void lowgraph_switch(void** save, void* load) {
    asm volatile(
        "lea -128(%%rsp), %%rsp\n\t"  // past the red zone
        "push %%rbp\n\t"  // may be the frame pointer, so it cannot be named as clobbered
        "lea 1f(%%rip), %%rax\n\t"
        "push %%rax\n\t"
        "mov %%rsp, (%0)\n\t"
        "mov %1, %%rsp\n\t"
        "pop %%rax\n\t"
        "jmp *%%rax\n"
        "1:\tpop %%rbp\n\t"
        "lea 128(%%rsp), %%rsp"
        : "+D"(save), "+S"(load)
        :
        : "rax", "rbx", "rcx", "rdx", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15",
          "memory", "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8",
          "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15"
#ifdef __AVX512F__
          ,
          "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23", "xmm24", "xmm25",
          "xmm26", "xmm27", "xmm28", "xmm29", "xmm30", "xmm31", "k0", "k1", "k2", "k3", "k4", "k5",
          "k6", "k7"
#endif
#ifdef __APX_F__
          ,
          "r16", "r17", "r18", "r19", "r20", "r21", "r22", "r23", "r24", "r25", "r26", "r27", "r28",
          "r29", "r30", "r31"
#endif
    );
}
