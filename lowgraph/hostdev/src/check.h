// The check build: kernels compiled with a call before each memory access (LOWGRAPH_HOST_CHECK=1).
// Every access is looked up here: bounds, state, initialised bytes, alignment; then it goes to the
// race detector (race.h). What is wrong becomes a finding; the kernel goes on where that is safe.
//
// While checking, launches, copies and fills run one at a time, each on one OS thread, and no image
// is ever unloaded: a pc stays resolvable for the life of the process.
#pragma once
#include <cstdint>
#include <string>

#include "engine.h"

namespace lowgraph {

enum class Space { global, shared };

// One access of the CUDA thread that runs now. pc: in the kernel's code, where it was made.
struct Access {
    uint64_t address;
    uint32_t bytes;
    bool write;  // an atomic that changes memory is a write too
    bool atomic;
    uint64_t pc;
    int order;  // of an atomic: __ATOMIC_RELAXED ...
    bool of_block = false;  // an atomic that holds among the threads of a block only
    uint32_t copy_since = 0;  // an asynchronous copy that arrives: race_now() as it was started
};

// Who did something, and where. A source place instead of a pc: set file and line, leave pc 0.
struct Site {
    const KernelEntry* kernel = nullptr;  // null: no kernel (a copy, a memset, a wait): see `what`
    const char* what = nullptr;           // "copy", "memset", "wait", `late_copy`; of static storage duration
    uint32_t block[3] = {}, thread[3] = {};
    uint64_t pc = 0;
    const char* file = nullptr;  // of static storage duration (an image's string)
    int line = 0;
    const char* access = nullptr;  // "read", "write" ...; of static storage duration; null: none
    std::string work;              // of a node race: "node 3 of a graph on stream 5"
};

// Names of findings, used as they are in text and JSON.
namespace kind {
inline constexpr char out_of_bounds[] = "out-of-bounds", use_after_free[] = "use-after-free",
               uninitialised_read[] = "uninitialised-read", misaligned[] = "misaligned",
               host_pointer[] = "host-pointer", shared_race[] = "shared-race",
               global_race[] = "global-race", divergent_barrier[] = "divergent-barrier",
               shuffle_mask[] = "shuffle-mask", node_race[] = "node-race",
               endless_kernel[] = "endless-kernel", endless_wait[] = "endless-wait";
}  // namespace kind

// Names of accesses, likewise.
namespace access {
inline constexpr char read[] = "read", write[] = "write", both[] = "read and write",
               update[] = "atomic update", atomic_read[] = "atomic read";
}  // namespace access

// What a copy is called whose call ends before it does (CopyWork::outlives_call).
inline constexpr char late_copy[] = "synchronous copy";

// True once lowgraph_host_set_check(1) was called; never goes back.
extern bool check_is_on;
inline bool checking() { return __builtin_expect(check_is_on, 0); }

// The site of the CUDA thread that runs now.
Site here(uint64_t pc);
Site here(const char* file, int line);

// Adds a finding, or counts it when kind, kernel, both places and the memory are known already, and
// of a finding with one side the access too. `other`: the other side, or null. `address`: 0, or in
// the memory that it is about. `text`: what happened, without kernel, place, block, thread ("read of
// 4 bytes that nobody has written"). Takes a lock of its own, and the tables' lock for the memory's
// name; never call it with that one held.
void report(const char* kind, const Site& where, const Site* other, uint64_t address,
            const std::string& text);

// Ends the block that runs on this OS thread, without a fault: the launch goes on with the next
// one. For a thread that cannot go on after its finding.
[[noreturn]] void end_block();

}  // namespace lowgraph
