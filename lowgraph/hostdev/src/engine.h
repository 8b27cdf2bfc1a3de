// The execution engine: runs one kernel launch on the CPU, all its blocks, over the worker threads.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include <string>
#include <vector>

#include "../include/cuda_on_host/abi.h"  // KernelEntry

namespace lowgraph {

// What went wrong in a launch. code is the driver's: 0 none, 700 illegal address, 710 assert, 716
// misaligned address, 719 launch failure (deadlock, trap, integer division by zero).
struct Fault {
    int code;
    uint32_t block[3], thread[3];
    uint64_t address;
    uint64_t instruction;  // that made the bad access; 0: none did, or the text names the line
    char text[512];  // one line: what, kernel, block, thread, address or source line
};

// Bytes between an image's __shared__ variables that belong to none, at `offset` from its shared tail.
// behind, before: the variables on both sides as messages name them, empty where there is none of the
// kernel's.
struct SharedGap {
    int64_t offset;
    uint32_t bytes;
    std::string behind, before;
};

struct Launch {
    const KernelEntry* kernel;
    uint32_t grid[3], block[3];
    uint32_t shared_bytes;  // dynamic shared memory, at most max_dynamic_shared
    void** params;          // one pointer for each argument, as cuLaunchKernel takes them
    const std::vector<SharedGap>* gaps = nullptr;  // of the kernel; null: its image has none
};

constexpr uint32_t max_dynamic_shared = 256u << 10;

// Starts the worker threads; workers counts the calling (executor) thread, 0 takes the number of
// cores of this process. Idempotent. run_kernel starts them by itself if nobody did.
void engine_start(int workers);
// How many threads a launch may use from now on, the calling one included; 0: the number of cores.
void engine_set_workers(int workers);
// Blocks the calling thread, which takes part, until the launch has ended; the first fault, or code
// 0. May be called from several threads at once: while one launch has the workers, another runs on
// its caller alone.
Fault run_kernel(const Launch& launch);
// Takes the engine's signal handlers out again, unless a launch runs. Called when nothing is in
// flight, by who waited for that and by an executor thread before it sleeps; the next launch puts
// them back. Between launches they would only hand signals on to whoever had them before.
void engine_rest();
// Switches between CUDA threads since the last call; 0 for kernels that never wait.
uint64_t engine_take_switches();

// The driver's side provides these. They run in the faulting OS thread, outside any signal
// handler, and must not take a lock that a thread running a kernel can hold.
void describe_address(uint64_t address, char* out, size_t n);
bool in_device_memory(uint64_t address);
// Where an image's code lies, and in it that of the check build's hooks, which is on no line of the
// user's; all 0: not known.
struct KernelCode {
    uint64_t start = 0, end = 0;
    uint64_t hooks_start = 0, hooks_end = 0;

    bool is_kernels(uint64_t pc) const {
        return pc >= start && pc < end && !(pc >= hooks_start && pc < hooks_end);
    }
};
// Of the image that the address lies in.
KernelCode kernel_code(uint64_t address);
// Whether the code there was made from a file of the user's, and not from a header that it includes.
bool is_users_code(uint64_t pc);
// "reduce.cu:17" for a code address; "": not known.
void place_of_code(uint64_t pc, char* out, size_t n);

}  // namespace lowgraph
