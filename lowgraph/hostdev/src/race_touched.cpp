#include "race_touched.h"

#include <algorithm>

namespace lowgraph {
namespace {

using Codes = std::vector<uint64_t>;

struct Run {
    size_t count = 0, period = 0;
};

size_t run_length(const Codes& codes, size_t from, size_t period) {
    const uint64_t delta = codes[from + period] - codes[from];
    size_t at = from + period;
    while (at < codes.size() && codes[at] - codes[at - period] == delta) ++at;
    return at - from;
}

// The run from there on that saves most; no count: none is worth a row. Periods: a thread's vector
// access or unrolled loop has a site for each element.
Run run_from(const Codes& codes, size_t from) {
    constexpr size_t row = 3, plenty = 64;  // in codes: what a row takes; look no further
    Run best;
    for (size_t period = 1; period <= 16 && from + period < codes.size(); period *= 2) {
        const size_t count = run_length(codes, from, period);
        const bool is_worth = count > period + row;
        if (is_worth && (best.count == 0 || count - period > best.count - best.period))
            best = {count, period};
        if (best.count >= plenty) break;
    }
    return best;
}

void stir(uint64_t& hash, uint64_t value) {
    hash = (hash ^ value) * 0x9E3779B97F4A7C15u;
    hash ^= hash >> 32;
}

}  // namespace

void Touchers::add(uint64_t start, unsigned shift, const Codes& codes) {
    const auto add_row = [&](size_t from, size_t count, const Run& run) {
        const uint64_t delta = run.period != 0 ? codes[from + run.period] - codes[from] : 0;
        rows_.push_back({start + (uint64_t{from} << shift), delta,
                         static_cast<uint32_t>(codes_.size()), static_cast<uint16_t>(run.period),
                         static_cast<uint16_t>(shift)});
        const auto first = codes.begin() + static_cast<std::ptrdiff_t>(from);
        codes_.insert(codes_.end(), first, first + static_cast<std::ptrdiff_t>(count));
    };
    size_t at = 0, alone = 0;  // units from `alone` on are in no run
    while (at < codes.size()) {
        const Run run = run_from(codes, at);
        if (run.count == 0) {
            ++at;
            continue;
        }
        if (alone < at) add_row(alone, at - alone, {});
        add_row(at, run.period, run);
        alone = at += run.count;
    }
    if (alone < at) add_row(alone, at - alone, {});
}

Toucher Touchers::at(uint64_t address) const {
    const auto after = std::ranges::upper_bound(rows_, address, {}, &Row::start);
    const Row& row = *std::prev(after);
    const uint64_t unit = (address - row.start) >> row.shift;
    if (row.period == 0) return Toucher::of(codes_[row.first + unit]);
    return Toucher::of(codes_[row.first + unit % row.period] + unit / row.period * row.delta);
}

uint64_t Touchers::hash() const {
    uint64_t hash = rows_.size();
    for (const Row& row : rows_) stir(hash, row.start), stir(hash, row.delta);
    for (const uint64_t code : codes_) stir(hash, code);
    return hash;
}

void Touchers::shrink() {
    rows_.shrink_to_fit();
    codes_.shrink_to_fit();
}

void Touched::forget(uint64_t start, uint64_t end) {
    std::vector<Range> left;
    for (const Range& range : ranges) {
        if (range.start < start)
            left.push_back({range.start, std::min(range.end, start), range.how});
        if (range.end > end) left.push_back({std::max(range.start, end), range.end, range.how});
    }
    ranges = std::move(left);
}

void TouchedBuilder::add(uint64_t start, unsigned shift, Touch how, Toucher toucher) {
    const uint64_t end = start + (uint64_t{1} << shift);
    std::vector<Range>& ranges = touched_.ranges;
    const bool goes_on = !ranges.empty() && end_ == start;
    if (goes_on && ranges.back().how == how) ranges.back().end = end;
    else ranges.push_back({start, end, how});
    if (!goes_on || shift != shift_) {
        touched_.touchers.add(start_, shift_, codes_);
        codes_.clear();
        start_ = start;
        shift_ = shift;
    }
    codes_.push_back(toucher.code());
    end_ = end;
}

Touched TouchedBuilder::take() {
    touched_.touchers.add(start_, shift_, codes_);
    return std::move(touched_);
}

SharedTouched TouchedSets::only(Touched&& touched) {
    uint64_t hash = touched.touchers.hash();
    for (const Range& range : touched.ranges) stir(hash, range.start), stir(hash, range.end);
    std::weak_ptr<const Touched>& known = known_[hash];
    SharedTouched held = known.lock();
    if (held != nullptr && *held == touched) return held;
    touched.ranges.shrink_to_fit();
    touched.touchers.shrink();
    held = std::make_shared<const Touched>(std::move(touched));
    known = held;
    if (known_.size() > most_) {
        std::erase_if(known_, [](const auto& entry) { return entry.second.expired(); });
        most_ = std::max<size_t>(1024, 2 * known_.size());
    }
    return held;
}

}  // namespace lowgraph
