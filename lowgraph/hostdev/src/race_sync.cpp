#include "race_sync.h"

#include <algorithm>

namespace lowgraph {

void SyncLog::begin_launch() {
    numbers_.clear();
    places_.clear();
}

void SyncLog::begin_block() {
    held_.clear();
    held_at_.clear();
    holds_all_ = false;
}

// What a thread held before the barrier is everyone's: one entry for each place is enough.
void SyncLog::barrier() {
    if (held_at_.empty()) return;
    held_at_.clear();
    std::sort(held_.begin(), held_.end(), [](const Held& a, const Held& b) {
        return a.place != b.place ? a.place < b.place : a.count > b.count;
    });
    const auto same = [](const Held& a, const Held& b) { return a.place == b.place; };
    held_.erase(std::unique(held_.begin(), held_.end(), same), held_.end());
}

void SyncLog::acquire(uint64_t address, uint32_t thread) {
    const auto found = numbers_.find(address);
    if (found == numbers_.end()) return;
    if (holds_all_) return;
    const size_t count = places_[found->second].releases.size();
    const Mark now = Mark::make(order_.clock_of(thread), thread, true, 0);
    const auto [spot, is_new] =
        held_at_.try_emplace(uint64_t{found->second} << 10 | thread, held_.size());
    if (!is_new) held_[spot->second].count = count;
    else if (held_.size() < most_held) held_.push_back({found->second, count, now});
    else holds_all_ = true;
}

void SyncLog::release(uint64_t address, uint32_t thread) {
    if (!order_.any_fence()) return;
    const auto [spot, is_new] =
        numbers_.try_emplace(address, static_cast<uint32_t>(places_.size()));
    if (is_new) places_.emplace_back();
    release(spot->second, thread, true);
    if (order_.any_block_fence()) release(spot->second, thread, false);
    places_[spot->second].behind_all |= holds_all_;
    for (const Held& held : held_) {
        if (held.place == spot->second || !holds(thread, held)) continue;
        size_t& count = places_[spot->second].behind[held.place];
        count = std::max(count, held.count);
    }
}

void SyncLog::release(uint32_t place, uint32_t thread, bool device) {
    const Fences& fences = order_.fences(device);
    Release made{order_.block_start, device, {}, fences.common()};
    if (!fences.own(thread, &made.own) && !made.common) return;
    std::vector<Release>& releases = places_[place].releases;
    if (!releases.empty() && releases.back() == made) return;  // a loop around a compare-and-swap
    releases.push_back(std::move(made));
}

bool SyncLog::follows(uint32_t thread, Mark mark) const {
    if (holds_all_) return true;
    std::vector<std::pair<uint32_t, size_t>> open;
    for (const Held& held : held_)
        if (holds(thread, held)) open.push_back({held.place, held.count});
    std::unordered_map<uint32_t, size_t> seen;
    while (!open.empty()) {
        const auto [number, count] = open.back();
        open.pop_back();
        size_t& before = seen[number];
        if (before >= count) continue;
        before = count;
        const Place& place = places_[number];
        if (place.behind_all || handed_on(place, count, mark)) return true;
        open.insert(open.end(), place.behind.begin(), place.behind.end());
    }
    return false;
}

// Blocks run one after another, so the releases lie in the order of their blocks' starts, and those
// that can cover the mark are the ones of the last block that began before it.
bool SyncLog::handed_on(const Place& place, size_t count, Mark mark) const {
    const auto end = place.releases.begin() + static_cast<std::ptrdiff_t>(count);
    auto at = std::upper_bound(
        place.releases.begin(), end, mark.clock,
        [](uint32_t clock, const Release& release) { return clock < release.block; });
    if (at == place.releases.begin()) return false;
    const uint32_t block = std::prev(at)->block;
    while (at != place.releases.begin() && (--at)->block == block) {
        if ((at->device || block == order_.block_start) && at->covers(mark)) return true;
    }
    return false;
}

}  // namespace lowgraph
