// The order of the threads of the block that runs: what each knows to be over of the others.
//
// One clock for all. It moves on at each barrier, warp operation and fence, and a thread's accesses
// carry the time of its last one. A thread knows all that its block did before the last barrier
// (`base`), what the lanes of its warp did before a warp operation they shared, and what came by an
// atomic (race_sync.h).
#pragma once
#include <memory>
#include <vector>

#include "race_shadow.h"

namespace lowgraph {

// Of one thread: its accesses up to a time.
struct Until {
    uint32_t thread, clock;
    bool operator==(const Until&) const = default;
};
// A part of what one block did: all before `base`, and of some threads more.
struct Part {
    uint32_t base = 0;
    std::vector<Until> threads;

    bool operator==(const Part&) const = default;
    bool covers(Mark mark) const {
        if (mark.clock < base) return true;
        for (const Until& until : threads)
            if (until.thread == mark.thread() && until.clock >= mark.clock) return true;
        return false;
    }
};
using SharedPart = std::shared_ptr<const Part>;

// What the fences of one scope have made known, so that an atomic behind them hands it on. Barriers
// and warp operations carry it like anything else: in "all write, all fence, barrier, one adds to a
// counter" the one hands on what all wrote.
class Fences {
public:
    void begin_block(uint32_t start);
    // known: of the lanes of the thread's warp, its own clock among them.
    void fence(uint32_t thread, uint32_t base, const uint32_t (&known)[32]);
    void barrier();
    void operation(uint32_t first, uint32_t lanes);
    // What an atomic of the thread hands on by the fences since the last barrier (false: nothing),
    // and by those before it (null: nothing).
    bool own(uint32_t thread, Part* part) const;
    const SharedPart& common() const { return common_; }

private:
    struct Fence {
        uint32_t base = 0;  // of the block when it was met; before block_start_: none in this block
        uint32_t known[32] = {};

        void join(const Fence& other);
    };
    uint32_t block_start_ = 0;
    Fence fences_[1024];                   // what each thread has
    std::vector<uint32_t> since_barrier_;  // threads with a new one
    SharedPart common_;                    // what the last barrier made everyone's
};

class ThreadOrder {
public:
    void begin_launch();
    void begin_block();
    void barrier();
    // A warp operation of these lanes of the warp that begins with thread `first`.
    void operation(uint32_t first, uint32_t lanes);
    void fence(uint32_t thread, bool device);

    uint32_t clock_of(uint32_t thread) const {
        return clocks_[thread] > base ? clocks_[thread] : base;
    }
    // Whether the thread comes after an access of this block, by barriers and warp operations.
    bool follows(uint32_t thread, Mark mark) const {
        if (mark.clock < base || mark.thread() == thread) return true;
        return mark.warp() == thread / 32 && known_[thread][mark.thread() % 32] >= mark.clock;
    }
    const Fences& fences(bool device) const { return fences_[device]; }
    bool any_fence() const { return any_fence_; }  // in this launch
    bool any_block_fence() const { return any_block_fence_; }
    // So late that the next launch must not begin before everything is forgotten.
    uint32_t now() const { return time_; }
    bool worn() const { return time_ > 3u << 30; }
    void rewind() { *this = ThreadOrder(); }

    uint32_t launch_start = 0, block_start = 0;
    uint32_t base = 0;  // the last barrier of the block, or its start

private:
    uint32_t time_ = 0;
    uint32_t clocks_[1024] = {};     // of each thread's last operation or fence
    uint32_t known_[1024][32] = {};  // of the lanes of its warp; older than `base` says nothing
    Fences fences_[2];               // of the block's scope; of the device's
    bool any_fence_ = false, any_block_fence_ = false;
};

}  // namespace lowgraph
