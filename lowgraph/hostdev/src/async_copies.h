// The asynchronous copies of a block's threads that have been started and not waited for
// (include/cuda_on_host/async_copies.h). What no wait is for is never made.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace lowgraph {

struct AsyncCopy {
    char* to;
    const char* from;
    uint32_t bytes, read;  // zeros come behind what is read
    uint64_t pc;           // where it was started; 0: not known
    uint32_t started = 0;  // the race detector's time

    void make() const {
        if (bytes == 16 && read == 16) {
            std::memcpy(to, from, 16);
            return;
        }
        std::memcpy(to, from, read);
        std::memset(to + read, 0, bytes - read);
    }
    bool covers(uint64_t address) const {
        return address - reinterpret_cast<uint64_t>(to) < bytes;
    }
};

// Of one thread, the oldest first.
class StartedCopies {
public:
    void start(const AsyncCopy& copy) { copies_.push_back(copy); }
    void commit() { batch_ends_.push_back(copies_.size()); }
    // Calls `arrive` for each copy of all batches but the `newest` closed last, and drops them.
    template <class Arrive>
    void wait(uint64_t newest, const Arrive& arrive) {
        if (batch_ends_.size() <= newest) return;
        const size_t batches = batch_ends_.size() - newest, count = batch_ends_[batches - 1];
        for (size_t i = 0; i < count; ++i) arrive(copies_[i]);
        drop(copies_, count);
        drop(batch_ends_, batches);
        for (size_t& end : batch_ends_) end -= count;
    }
    const AsyncCopy* find(uint64_t address) const {
        for (const AsyncCopy& copy : copies_)
            if (copy.covers(address)) return &copy;
        return nullptr;
    }
    void forget() { copies_.clear(), batch_ends_.clear(); }

private:
    template <class T>
    static void drop(std::vector<T>& from, size_t count) {
        from.erase(from.begin(), from.begin() + static_cast<std::ptrdiff_t>(count));
    }

    std::vector<AsyncCopy> copies_;
    std::vector<size_t> batch_ends_;  // of the closed batches, in copies_
};

// Of all threads of a block. Room is made with the first copy, and kept.
class AsyncCopies {
public:
    explicit AsyncCopies(uint32_t most_threads) : most_threads_(most_threads) {}
    void begin_block() {
        if (__builtin_expect(used_, 0)) forget();
    }
    StartedCopies& of(uint32_t thread) {
        if (__builtin_expect(!used_, 0)) use();
        return of_thread_[thread];
    }
    bool used() const { return used_; }  // by the running block
    // The copy that is to bring the byte, and whose it is; null: none.
    const AsyncCopy* find(uint64_t address, uint32_t* thread) const;

private:
    void use();
    void forget();

    const uint32_t most_threads_;
    bool used_ = false;
    std::vector<StartedCopies> of_thread_;
};

}  // namespace lowgraph
