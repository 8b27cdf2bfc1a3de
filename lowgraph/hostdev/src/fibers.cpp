#include "fibers.h"

#include <sys/mman.h>

#include <atomic>
#include <new>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace lowgraph {
namespace {

// Address space only: pages become memory when they are touched.
char* reserve(size_t bytes, int protection = PROT_READ | PROT_WRITE) {
    void* region =
        mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (region == MAP_FAILED) throw std::bad_alloc();
    return static_cast<char*>(region);
}

void protect(char* start, size_t bytes, int protection) {
    if (mprotect(start, bytes, protection) != 0) throw std::bad_alloc();
}

void forbid(char* start, size_t bytes = page_bytes) { protect(start, bytes, PROT_NONE); }

// A guard page parts a mapping in two, and the system gives a process 65530 mappings, unless it is
// told otherwise: threads of 1024 guarded stacks each used them up, 31 of them, and whoever asked
// for memory next ended the process. So guards are made with the stacks that are used, and the
// process's stacks take no more than half of the mappings.
constexpr int most_guards = 16000;
std::atomic<int> guards_left{most_guards};

constexpr int all_stacks = FiberStacks::max_stacks + 1;  // the last one is the recovery stack

// Where in its last two pages a stack starts: tops at one page offset would share cache sets.
size_t shift_of(int stack) { return (static_cast<size_t>(stack) * 320) & 8191; }

}  // namespace

FiberStacks::FiberStacks() : base_(reserve(stride * all_stacks, PROT_NONE)) {
    protect(base_ + max_stacks * stride + page_bytes, usable, PROT_READ | PROT_WRITE);
    free_.reserve(max_stacks);
}

// Without a guard from here on where there are enough of them: what a thread writes below its stack is
// then its neighbour's.
void FiberStacks::open_one() {
    char* const start = base_ + open_ * stride;
    const bool guarded = guards_left.fetch_sub(1, std::memory_order_relaxed) > 0;
    if (guarded && mprotect(start + page_bytes, usable, PROT_READ | PROT_WRITE) == 0) {
        ++open_;
        return;
    }
    protect(start, (all_stacks - open_) * stride, PROT_READ | PROT_WRITE);
    open_ = all_stacks;
}

int FiberStacks::take() {
    if (free_.empty()) {
        if (used_ == open_) open_one();
        return used_++;
    }
    const int stack = free_.back();
    free_.pop_back();
    return stack;
}

void* FiberStacks::prepare(int stack, void (*entry)()) const {
    const auto end = reinterpret_cast<uintptr_t>(base_ + (stack + 1) * stride - shift_of(stack));
    auto** top = reinterpret_cast<void**>(end & ~uintptr_t{63});
    *--top = nullptr;  // the return address of entry, which never returns: also ends a debugger's
                       // backtrace
    *--top = reinterpret_cast<void*>(entry);
    return top;
}

void* FiberStacks::recovery_top() const { return base_ + all_stacks * stride - 64; }

void FiberStacks::forget_frames() const {
#if defined(__SANITIZE_ADDRESS__)
    __asan_unpoison_memory_region(base_, all_stacks * stride);
#endif
}

bool FiberStacks::is_guard(uint64_t address) const {
    const uint64_t offset = address - reinterpret_cast<uint64_t>(base_);
    return offset < all_stacks * stride && offset % stride < page_bytes;
}

void FiberStacks::span(uint64_t* start, uint64_t* end) const {
    *start = reinterpret_cast<uint64_t>(base_);
    *end = *start + all_stacks * stride;
}

GuardedBuffer::GuardedBuffer(size_t bytes)
    : begin_(reserve(page_bytes + bytes + reach) + page_bytes), bytes_(bytes) {
    forbid(begin_ - page_bytes);
    forbid(begin_ + bytes, reach);
}

bool GuardedBuffer::is_near(uint64_t address) const {
    return address - reinterpret_cast<uint64_t>(begin_ - page_bytes) < page_bytes + bytes_ + reach;
}

}  // namespace lowgraph
