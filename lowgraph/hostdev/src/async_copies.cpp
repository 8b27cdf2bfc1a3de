#include "async_copies.h"

#include "block.h"
#include "watcher.h"

namespace lowgraph {

const AsyncCopy* AsyncCopies::find(uint64_t address, uint32_t* thread) const {
    for (uint32_t i = 0; used_ && i < most_threads_; ++i) {
        const AsyncCopy* const copy = of_thread_[i].find(address);
        *thread = i;
        if (copy != nullptr) return copy;
    }
    return nullptr;
}

void AsyncCopies::use() {
    used_ = true;
    of_thread_.resize(most_threads_);
}

void AsyncCopies::forget() {
    used_ = false;
    for (StartedCopies& copies : of_thread_) copies.forget();
}

}  // namespace lowgraph

using namespace lowgraph;

extern "C" {

LEAVES_BY_SWITCH void lowgraph_copy_start(void* to, const void* from, uint32_t bytes, uint32_t read,
                                          const void* pc) {
    Block& block = *lowgraph_thread.runner;
    AsyncCopy copy{static_cast<char*>(to), static_cast<const char*>(from), bytes, read,
                   reinterpret_cast<uint64_t>(pc)};
    if (watched()) watcher->copy_starts(block, copy);
    if (__builtin_expect(block.to_end, 0)) block.abandon();
    block.copies.of(lowgraph_thread.linear).start(copy);
}

void lowgraph_copy_commit() {
    lowgraph_thread.runner->copies.of(lowgraph_thread.linear).commit();
}

LEAVES_BY_SWITCH void lowgraph_copy_wait(uint64_t newest) {
    Block& block = *lowgraph_thread.runner;
    block.copies.of(lowgraph_thread.linear).wait(newest, [&block](const AsyncCopy& copy) {
        if (watched()) watcher->copy_arrives(block, copy);
        if (!block.to_end) copy.make();
    });
    if (__builtin_expect(block.to_end, 0)) block.abandon();
}

}  // extern "C"
