// What a launch has touched, from the bits of its pages.
#include <algorithm>

#include "race_detector.h"

namespace lowgraph {
namespace {

// Calls run(from, to) for each stretch of set bits.
template <typename Run>
void for_each_run(const uint64_t (&bits)[Page::bytes / 64], Run run) {
    uint64_t start = 0;
    bool inside = false;
    for (uint64_t word = 0; word < Page::bytes / 64; ++word) {
        uint64_t at = 0;
        while (at < 64) {
            const uint64_t rest = (inside ? ~bits[word] : bits[word]) >> at;
            if (rest == 0) break;
            at += static_cast<uint64_t>(__builtin_ctzll(rest));
            if (inside) run(start, word * 64 + at);
            else start = word * 64 + at;
            inside = !inside;
        }
    }
    if (inside) run(start, Page::bytes);
}

}  // namespace

// Of the access to this byte that the cell remembers. Another write may have come to a part of a
// read span's neighbours only, so the launch's mark is there.
uint64_t RaceDetector::pc_of_access(const Page& page, uint64_t address, bool write) const {
    const Cell& cell = page.cell_at(address);
    const Mark mark = !write                                      ? cell.readers[0]
                      : cell.writer.clock >= order_.launch_start ? cell.writer
                                                                  : cell.atomics[0];
    return sites_.pc(mark.site());
}

void RaceDetector::add_spans(const Page& page, std::vector<Span>& spans) const {
    const uint64_t base = page.number * Page::bytes;
    const size_t first = spans.size();
    const auto add = [&](uint64_t from, uint64_t to, bool write) {
        // Where one slice may end and another begin, each has a place in the code of its own.
        for (uint64_t stop; from < to; from = stop) {
            stop = std::min(to, (from / 256 + 1) * 256);
            spans.push_back({base + from, base + stop, write, pc_of_access(page, from, write)});
        }
    };
    uint64_t only_read[Page::bytes / 64];
    for (size_t i = 0; i < Page::bytes / 64; ++i) only_read[i] = page.read[i] & ~page.written[i];
    for_each_run(page.written, [&](uint64_t from, uint64_t to) { add(from, to, true); });
    for_each_run(only_read, [&](uint64_t from, uint64_t to) { add(from, to, false); });
    std::sort(spans.begin() + static_cast<std::ptrdiff_t>(first), spans.end(),
              [](const Span& a, const Span& b) { return a.start < b.start; });
}

std::vector<Span> RaceDetector::spans_of_launch() {
    std::vector<Page*>& pages = global_.touched();
    std::sort(pages.begin(), pages.end(),
              [](const Page* a, const Page* b) { return a->number < b->number; });
    std::vector<Span> all, merged;
    for (const Page* page : pages) add_spans(*page, all);
    for (const Span& span : all) {
        Span* const last = merged.empty() ? nullptr : &merged.back();
        const bool same = last != nullptr && last->end == span.start &&
                          last->write == span.write && last->pc == span.pc;
        if (same) last->end = span.end;
        else merged.push_back(span);
    }
    return merged;
}

}  // namespace lowgraph
