// What the engine tells whoever watches its launches. In a plain run nobody does: the engine then
// pays one predictable branch for each block, barrier and warp operation.
#pragma once
#include <cstdint>

namespace lowgraph {

struct AsyncCopy;
struct Block;
struct Job;
struct Warp;

class Watcher {
public:
    // On the OS thread that runs the launch; launches are watched one at a time, on one OS thread.
    virtual void launch_begins(const Job& job) = 0;
    virtual void launch_ends() = 0;
    virtual void block_begins(Block& block, uint64_t index) = 0;

    // All threads of the block that have not returned are at a barrier and will be let go. Their
    // sites hold; those that wait are still marked in their warps.
    virtual void barrier_completes(Block& block) = 0;
    // In the three that follow the watcher may set Block::to_end: the block then ends without a fault.
    //
    // The lanes have come to one warp operation; they are still marked as waiting.
    virtual void operation_completes(Block& block, Warp& warp, uint32_t lanes) = 0;
    // The running thread is not in the mask of its warp operation.
    virtual void outside_mask(Block& block, uint32_t mask, const char* file, int line) = 0;
    // No thread of the block can go on.
    virtual void deadlock(Block& block) = 0;

    // The running thread starts an asynchronous copy, or has waited for one, which is about to be
    // made. The watcher may set Block::to_end too.
    virtual void copy_starts(Block&, AsyncCopy&) {}
    virtual void copy_arrives(Block&, const AsyncCopy&) {}

    // The running thread's instruction at pc met memory that it may not touch. True: it is told, and
    // the block is to end without a fault.
    virtual bool bad_access(uint64_t, bool /*write*/, uint64_t /*pc*/) { return false; }
    // A launch is over its time (Job::overdue): it is to be stopped at its next access. Called by
    // the watchdog's thread.
    virtual void stop_wanted() {}
    // ... and has been met at pc (0: not known) by the thread that runs, which the caller ends. True:
    // it is told, and no fault.
    virtual bool overdue(const Job&, uint64_t /*pc*/, const char* /*text*/) { return false; }

protected:
    ~Watcher() = default;
};

extern Watcher* watcher;  // null: nobody
inline bool watched() { return __builtin_expect(watcher != nullptr, 0); }

}  // namespace lowgraph
