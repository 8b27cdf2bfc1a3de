// What a compiled kernel file (an image) and the engine in libcuda share: the state of the CUDA
// thread that runs now, the calls that make it wait, and the table entry that describes a kernel.
// Both sides include this file, so that the layouts cannot drift apart.
#pragma once
#include <stddef.h>
#include <stdint.h>

namespace lowgraph {

#ifdef LOWGRAPH_HOST  // a kernel image: CUDA's own types, so that `uint3 t = threadIdx` compiles
using Index = uint3;
using Extent = dim3;
#else
struct Index {
    unsigned x, y, z;
};
using Extent = Index;
#endif

struct Block;

// One kernel of an image, exported as symbol "lowgraph_kernel_<name>".
struct KernelEntry {
    const char* name;
    void (*run)(void** params);  // runs threads of one block until there is no next one
    int param_count;
    const uint16_t* sizes;    // bytes of each argument
    const uint16_t* offsets;  // where each argument lies in the packed argument block
    // Makes the image's thread-local block (its __shared__) exist in this OS thread; gives the
    // shared_tail_bytes behind it, which no kernel may touch.
    unsigned char* (*touch)();
    uint32_t static_shared;  // bytes of the __shared__ variables declared in the kernel itself
    uint32_t max_threads;    // __launch_bounds__, or 1024
};

// What the lanes of one warp got from their last warp operation.
struct WarpDelivery {
    uint64_t result[32];   // the value that the lane asked for
    uint32_t members[32];  // the lanes that took part in the lane's operation
};

// The CUDA thread that this OS thread runs now.
struct ThreadState {
    Index thread, block;      // threadIdx, blockIdx
    Extent block_size, grid;  // blockDim, gridDim
    void* dynamic_shared;     // 16-byte aligned; its end is the end of a page
    uint32_t dynamic_shared_bytes;
    uint32_t linear;   // this thread's number in its block, x fastest
    uint32_t threads;  // threads of the block
    uint32_t fibers;   // 0 while the block's threads still run one after another as a plain loop
    uint32_t late_copies;  // 1: an asynchronous copy arrives at the wait for it, 0: at once
    Block* runner;     // null when no kernel runs in this OS thread
    WarpDelivery* delivery;  // of this thread's warp; valid after its first wait
    uint32_t poller, polls;  // the thread that made the last atomic, and how many in a row
};

// How a thread that has to wait gives up the processor; load is null when it may go on at once.
struct SwitchPlan {
    void** save;
    void* load;
};

constexpr size_t shared_tail_bytes = 4096;

constexpr uint32_t vote =
    32;  // the source of a warp operation that wants the ballot and not a lane's value

}  // namespace lowgraph

#define LOWGRAPH_ABI __attribute__((visibility("default")))
extern "C" {
// initial-exec: one load and one add for each access; the block is small enough for the loader's
// reserve.
extern LOWGRAPH_ABI __thread lowgraph::ThreadState lowgraph_thread
    __attribute__((tls_model("initial-exec")));

LOWGRAPH_ABI lowgraph::SwitchPlan lowgraph_barrier_arrive(const char* file, int line);
// predicate: 0 or 1, taken into the count, the "and" and the "or" that the barrier hands out.
LOWGRAPH_ABI void lowgraph_barrier_vote(int predicate);
LOWGRAPH_ABI int lowgraph_barrier_count();
LOWGRAPH_ABI int lowgraph_barrier_and();
LOWGRAPH_ABI int lowgraph_barrier_or();
// source: the lane whose value the caller wants, or `vote`.
LOWGRAPH_ABI lowgraph::SwitchPlan lowgraph_warp_arrive(uint32_t mask, uint64_t value,
                                                       uint32_t source, const char* file, int line);
// The calling thread could go on, but may be asking memory for what another one has yet to write.
LOWGRAPH_ABI lowgraph::SwitchPlan lowgraph_give_way();
// The thread has returned. 1: run the thread that lowgraph_thread now names on this stack; 0: the
// block is over.
LOWGRAPH_ABI int lowgraph_next_thread();
// Asynchronous copies (async_copies.h), where ThreadState::late_copies says so. A started copy of `bytes`, of which `read` come from `from`
// and zeros behind them, is made when the thread waits for the batch that it is in; pc: where it
// was started, for the checker.
LOWGRAPH_ABI void lowgraph_copy_start(void* to, const void* from, uint32_t bytes, uint32_t read,
                                      const void* pc);
LOWGRAPH_ABI void lowgraph_copy_commit();
// Makes the copies of all the thread's batches but the `newest` closed last.
LOWGRAPH_ABI void lowgraph_copy_wait(uint64_t newest);
[[noreturn]] LOWGRAPH_ABI void lowgraph_trap(int code, const char* why, const char* file, int line);
// Sets the variable of a conditional graph node.
LOWGRAPH_ABI void lowgraph_set_conditional(uint64_t handle, unsigned value, const char* file,
                                           int line);
LOWGRAPH_ABI int lowgraph_printf(const char* format, ...) __attribute__((format(printf, 1, 2)));
}
