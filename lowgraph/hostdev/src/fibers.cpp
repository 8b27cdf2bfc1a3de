#include "fibers.h"

#include <sys/mman.h>

#include <new>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace lowgraph {
namespace {

// Address space only: pages become memory when they are touched.
char* reserve(size_t bytes) {
    void* region = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (region == MAP_FAILED) throw std::bad_alloc();
    return static_cast<char*>(region);
}

void forbid(char* start, size_t bytes = page_bytes) {
    if (mprotect(start, bytes, PROT_NONE) != 0) throw std::bad_alloc();
}

constexpr int all_stacks = FiberStacks::max_stacks + 1;  // the last one is the recovery stack

// Where in its last two pages a stack starts: tops at one page offset would share cache sets.
size_t shift_of(int stack) { return (static_cast<size_t>(stack) * 320) & 8191; }

}  // namespace

FiberStacks::FiberStacks() : base_(reserve(stride * all_stacks)) {
    for (int i = 0; i < all_stacks; ++i) forbid(base_ + i * stride);
    free_.reserve(max_stacks);
}

int FiberStacks::take() {
    if (free_.empty()) return used_++;
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
