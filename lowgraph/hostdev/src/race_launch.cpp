// What a launch has touched, from the bits and cells of its pages.
#include <algorithm>

#include "race_detector.h"

namespace lowgraph {

// Blocks are run in the order of their numbers. Neighbouring bytes are mostly of one block.
uint64_t RaceDetector::thread_of(Mark mark) const {
    const auto starts_later = [&](uint64_t block) {
        return block == block_starts_.size() || block_starts_[block] > mark.clock;
    };
    if (starts_later(near_block_) || !starts_later(near_block_ + 1)) {
        const auto after = std::upper_bound(block_starts_.begin(), block_starts_.end(), mark.clock);
        near_block_ = static_cast<uint64_t>(after - block_starts_.begin()) - 1;
    }
    return near_block_ * grid_.block_threads() + mark.thread();
}

// Of the access that the cell remembers of this launch.
Mark RaceDetector::last_access(const Cell& cell, bool write) const {
    if (!write) return cell.readers[0];
    return cell.writer.clock >= order_.launch_start ? cell.writer : cell.atomics[0];
}

// Every access covers whole units, so the bits of a unit are alike.
void RaceDetector::add_touched(const Page& page, TouchedBuilder& touched) const {
    const uint64_t base = page.number * Page::bytes, unit = uint64_t{1} << page.shift;
    for (uint64_t word = 0; word < Page::bytes / 64; ++word) {
        uint64_t rest = 0;
        for (const auto& bits : page.touched) rest |= bits[word];
        while (rest != 0) {
            const auto bit = static_cast<uint64_t>(__builtin_ctzll(rest));
            Touch how = 0;
            for (unsigned kind = 0; kind < touch_kinds; ++kind)
                how |= Touch((page.touched[kind][word] >> bit & 1) << kind);
            const uint64_t start = base + word * 64 + bit;
            const Mark mark = last_access(page.cell_at(start), has_write(how));
            touched.add(start, page.shift, how, {thread_of(mark), mark.site()});
            rest &= ~(((uint64_t{1} << unit) - 1) << bit);
        }
    }
}

Touched RaceDetector::touched_by_launch() {
    std::vector<Page*>& pages = global_.touched();
    std::sort(pages.begin(), pages.end(),
              [](const Page* a, const Page* b) { return a->number < b->number; });
    near_block_ = 0;
    TouchedBuilder touched;
    for (const Page* page : pages) add_touched(*page, touched);
    return touched.take();
}

}  // namespace lowgraph
