#include "race_threads.h"

#include <algorithm>
#include <cstring>

namespace lowgraph {

void Fences::Fence::join(const Fence& other) {
    base = std::max(base, other.base);
    for (int lane = 0; lane < 32; ++lane) known[lane] = std::max(known[lane], other.known[lane]);
}

void Fences::begin_block(uint32_t start) {
    since_barrier_.clear();
    block_start_ = start;
    common_ = nullptr;
}

void Fences::fence(uint32_t thread, uint32_t base, const uint32_t (&known)[32]) {
    fences_[thread].base = base;
    std::memcpy(fences_[thread].known, known, sizeof known);
    since_barrier_.push_back(thread);
}

void Fences::barrier() {
    if (since_barrier_.empty()) return;
    Fence of_warp[32];
    uint32_t base = common_ ? common_->base : 0;
    for (const uint32_t thread : since_barrier_) {
        of_warp[thread / 32].join(fences_[thread]);
        base = std::max(base, fences_[thread].base);
    }
    if (common_)
        for (const Until& until : common_->threads) {
            uint32_t& known = of_warp[until.thread / 32].known[until.thread % 32];
            known = std::max(known, until.clock);
        }
    auto part = std::make_shared<Part>();
    part->base = base;
    for (uint32_t thread = 0; thread < 1024; ++thread) {
        const uint32_t known = of_warp[thread / 32].known[thread % 32];
        if (known >= base) part->threads.push_back({thread, known});
    }
    common_ = std::move(part);
    since_barrier_.clear();
}

void Fences::operation(uint32_t first, uint32_t lanes) {
    Fence joined;
    for (uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
        const Fence& fence = fences_[first + static_cast<uint32_t>(__builtin_ctz(rest))];
        if (fence.base >= block_start_) joined.join(fence);
    }
    if (joined.base == 0) return;
    for (uint32_t rest = lanes; rest != 0; rest &= rest - 1)
        fences_[first + static_cast<uint32_t>(__builtin_ctz(rest))] = joined;
}

bool Fences::own(uint32_t thread, Part* part) const {
    const Fence& fence = fences_[thread];
    if (fence.base < block_start_) return false;
    part->base = fence.base;
    const uint32_t first = thread & ~31u;
    for (uint32_t lane = 0; lane < 32; ++lane) {
        if (fence.known[lane] >= fence.base)
            part->threads.push_back({first + lane, fence.known[lane]});
    }
    return true;
}

void ThreadOrder::begin_launch() {
    launch_start = ++time_;
    any_fence_ = any_block_fence_ = false;
}

void ThreadOrder::begin_block() {
    block_start = base = ++time_;
    for (Fences& fences : fences_) fences.begin_block(block_start);
}

void ThreadOrder::barrier() {
    base = ++time_;
    if (!any_fence_) return;
    for (Fences& fences : fences_) fences.barrier();
}

void ThreadOrder::operation(uint32_t first, uint32_t lanes) {
    uint32_t joined[32] = {};
    for (uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
        const uint32_t lane = static_cast<uint32_t>(__builtin_ctz(rest));
        const uint32_t* const known = known_[first + lane];
        for (int other = 0; other < 32; ++other)
            joined[other] = std::max(joined[other], known[other]);
        joined[lane] = std::max(joined[lane], clock_of(first + lane));
    }
    ++time_;
    for (uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
        const uint32_t thread = first + static_cast<uint32_t>(__builtin_ctz(rest));
        std::memcpy(known_[thread], joined, sizeof joined);
        clocks_[thread] = time_;
    }
    if (!any_fence_) return;
    for (Fences& fences : fences_) fences.operation(first, lanes);
}

void ThreadOrder::fence(uint32_t thread, bool device) {
    any_fence_ = true;
    any_block_fence_ |= !device;
    known_[thread][thread % 32] = clock_of(thread);
    for (int scope = 0; scope <= static_cast<int>(device); ++scope)
        fences_[scope].fence(thread, base, known_[thread]);
    clocks_[thread] = ++time_;
}

}  // namespace lowgraph
