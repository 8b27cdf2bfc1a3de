// The stacks on which the threads of a block run once they have to wait for one another.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "../include/cuda_on_host/fiber_switch.h"

// A function that ends, or may end, with a switch to another stack and so without a return. The
// sanitizers count the functions that are entered and left on a thread (ThreadSanitizer), and mark
// the frames on its stack (AddressSanitizer): these must be left out of both. All else is in order
// without a word to them: the fibers of a block share one OS thread.
#define LEAVES_BY_SWITCH __attribute__((no_sanitize("thread", "address")))

namespace lowgraph {

constexpr size_t page_bytes = 4096;

class FiberStacks {
public:
    static constexpr int max_stacks = 1024;  // a block's most threads
    // An odd number of pages: stacks a power of two apart would fight for the same TLB and cache
    // sets (2-3x a switch).
    static constexpr size_t stride = 17 * page_bytes;
    static constexpr size_t usable = stride - page_bytes;  // the lowest page is the guard

    FiberStacks();
    FiberStacks(const FiberStacks&) = delete;
    FiberStacks& operator=(const FiberStacks&) = delete;

    void reset() { used_ = 0, free_.clear(); }
    int take();
    void give_back(int stack) { free_.push_back(stack); }
    // A place for lowgraph_switch to go on at: entry() on the given stack.
    void* prepare(int stack, void (*entry)()) const;
    // The top of a stack that no fiber ever gets: where a thread that faulted lands, whatever its
    // own stack is like.
    void* recovery_top() const;
    // Under AddressSanitizer: frames that were never left are on the stacks no longer.
    void forget_frames() const;
    // The address lies in a guard page: a thread has used up its stack.
    bool is_guard(uint64_t address) const;
    void span(uint64_t* start, uint64_t* end) const;  // of all stacks

private:
    void open_one();

    char* base_;
    int used_ = 0;
    int open_ = 0;  // stacks that may be written, from the first on
    std::vector<int> free_;
};

// A page-ended buffer with a guard page before it and a long guard behind: dynamic shared memory.
// In the guard's reach nothing else can be mapped, so that an address there is an overflow of this
// buffer: the system once put a kernel image right behind it, whose variables were taken for one.
class GuardedBuffer {
public:
    explicit GuardedBuffer(size_t bytes);
    GuardedBuffer(const GuardedBuffer&) = delete;
    GuardedBuffer& operator=(const GuardedBuffer&) = delete;
    // The last n bytes, rounded up to keep the start 16-byte aligned.
    char* tail(size_t n) const { return begin_ + bytes_ - (n + 15) / 16 * 16; }
    bool is_near(uint64_t address) const;
    bool holds(uint64_t address) const {
        return address - reinterpret_cast<uint64_t>(begin_) < bytes_;
    }

private:
    static constexpr size_t reach = size_t{1} << 20;

    char* begin_;
    size_t bytes_;
};

}  // namespace lowgraph
