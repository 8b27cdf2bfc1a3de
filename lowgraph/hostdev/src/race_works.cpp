#include "race_works.h"

#include <algorithm>

#include "images.h"
#include "memory.h"
#include "race.h"

namespace lowgraph {
namespace {

// Whether the works are one launch of a graph.
bool one_launch(const WorkRecord& a, const WorkRecord& b) {
    return a.place.stamp == b.place.stamp && a.place.graph != nullptr;
}

Site site_of(const WorkRecord& record, uint64_t address) {
    Site site;
    if (record.grid.kernel != nullptr) {
        const Toucher toucher = record.touched->touchers.at(address);
        site = record.grid.site(toucher.thread, sites().pc(toucher.site));
    }
    site.what = record.name;
    return site;
}

std::string work_title(const WorkRecord& record) {
    const std::string stream = "stream " + std::to_string(record.place.stamp->stream);
    if (record.place.graph == nullptr) return stream;
    return "node " + record.place.graph->title(record.place.node) + " of a graph on " + stream;
}

// "node 3 (scale)"
std::string node_title(const WorkRecord& record) {
    return "node " + record.place.graph->title(record.place.node) + " (" + record.name + ")";
}

uint64_t part_end(uint64_t address) {
    uint64_t start = 0, end = 0;
    if (find_part(address, &start, &end)) return end;
    const Image* image = image_of(address);  // its variables count as one memory
    return image != nullptr ? image->end : UINT64_MAX;
}

struct Clash {
    bool earlier_writes = false, later_writes = false;  // of the first pair
    uint64_t address = 0, bytes = 0;                    // where it begins; of all pairs
    uint64_t end = 0;                                   // of the slice or allocation
};

// One for each slice or allocation, by address.
std::vector<Clash> clashes_of(const std::vector<Range>& earlier, const std::vector<Range>& later) {
    std::vector<Clash> clashes;
    auto a = earlier.begin();
    auto b = later.begin();
    while (a != earlier.end() && b != later.end()) {
        const uint64_t end = std::min(a->end, b->end);
        uint64_t start = std::max(a->start, b->start);
        while (start < end && may_race(a->how, b->how)) {
            if (clashes.empty() || start >= clashes.back().end)
                clashes.push_back({has_write(a->how), has_write(b->how), start, 0, part_end(start)});
            const uint64_t stop = std::min(end, clashes.back().end);
            clashes.back().bytes += stop - start;
            start = stop;
        }
        a->end < b->end ? ++a : ++b;
    }
    return clashes;
}

std::string text_of(const Clash& clash, const WorkRecord& earlier, const WorkRecord& later) {
    std::string text = clash.later_writes ? "writes " : "reads ";
    text += std::to_string(clash.bytes) + " bytes that ";
    text += one_launch(earlier, later) ? "another node of the graph " : "work on another stream ";
    text += clash.earlier_writes ? "writes" : "reads";
    if (one_launch(earlier, later))
        return text + ": no path between " + node_title(earlier) + " and " + node_title(later);
    return text + ": nothing orders " + earlier.name + " on stream " +
           std::to_string(earlier.place.stamp->stream) + " and " + later.name + " on stream " +
           std::to_string(later.place.stamp->stream) +
           (earlier.name == late_copy ? " (the copy's call may return before it has arrived; wait for its "
                                        "stream, or copy on the stream of what follows)"
                                      : "");
}

// The copy or memset that runs.
struct RunningRanges {
    const char* name = nullptr;
    Touched touched;
};
RunningRanges& running_ranges() {
    thread_local RunningRanges running;
    return running;
}

}  // namespace

Works& works() {
    static Works* const instance = new Works;
    return *instance;
}

void Works::add(const char* name, const Grid& grid, Touched&& touched) {
    const RunningWork& running = running_work();
    if (running.stamp == nullptr || touched.ranges.empty()) return;
    const WorkStamp& stamp = *running.stamp;
    const std::lock_guard<std::mutex> hold(lock_);
    const WorkRecord record{name, grid, running, sets_.only(std::move(touched))};
    for (const auto& [stream, records] : of_stream_) {
        const uint64_t before = number_in(stamp.before, stream);
        for (auto earlier = records.rbegin(); earlier != records.rend(); ++earlier) {
            const RunningWork& place = earlier->place;
            if (one_launch(*earlier, record)) {
                // In the bodies of one conditional node the order is its own.
                if (place.node == running.node) continue;
                if (place.graph->precedes(place.node, running.node)) continue;
            } else if (place.stamp->number <= before || stream == stamp.stream) {
                break;
            }
            compare(*earlier, record);
        }
    }
    std::deque<WorkRecord>& own = of_stream_[stamp.stream];
    own.push_back(record);
    if (own.size() > most_kept) own.pop_front();
}

void Works::compare(const WorkRecord& earlier, const WorkRecord& later) const {
    for (const Clash& clash : clashes_of(earlier.touched->ranges, later.touched->ranges)) {
        Site where = site_of(later, clash.address), other = site_of(earlier, clash.address);
        where.access = clash.later_writes ? access::write : access::read;
        other.access = clash.earlier_writes ? access::write : access::read;
        where.work = work_title(later);
        other.work = work_title(earlier);
        report(kind::node_race, where, &other, clash.address, text_of(clash, earlier, later));
    }
}

void Works::retire(const Before& common) {
    const std::lock_guard<std::mutex> hold(lock_);
    for (auto spot = of_stream_.begin(); spot != of_stream_.end();) {
        std::deque<WorkRecord>& records = spot->second;
        const uint64_t last = number_in(common, spot->first);
        while (!records.empty() && records.front().place.stamp->number <= last) records.pop_front();
        spot = records.empty() ? of_stream_.erase(spot) : std::next(spot);
    }
}

void Works::forget(uint64_t start, uint64_t end) {
    const std::lock_guard<std::mutex> hold(lock_);
    for (auto& [stream, records] : of_stream_)
        for (WorkRecord& record : records) {
            const auto within = [start, end](const Range& range) {
                return range.start < end && start < range.end;
            };
            if (std::ranges::none_of(record.touched->ranges, within)) continue;
            Touched rest = *record.touched;
            rest.forget(start, end);
            record.touched = sets_.only(std::move(rest));
        }
}

void race_work_begin(const char* what) { running_ranges() = {what, {}}; }

// Pageable memory is the caller's, and may be something else by the time of the next copy.
void race_range(uint64_t address, uint64_t bytes, bool write) {
    Region region;
    if (bytes != 0 && find_region(address, bytes, &region))
        running_ranges().touched.ranges.push_back({address, address + bytes, touch(write, false)});
}

void race_work_end() {
    Touched& touched = running_ranges().touched;
    std::ranges::sort(touched.ranges, {}, &Range::start);
    works().add(running_ranges().name, Grid(), std::move(touched));
    touched = {};
}

void race_unused(uint64_t start, uint64_t end) { works().forget(start, end); }

void race_allocated(uint64_t address, uint64_t bytes) {
    works().forget(address, address + bytes);
    works().add("allocation", Grid(), {{{address, address + bytes, touch(true, false)}}, {}});
}

void race_freed(uint64_t address) {
    Region region;
    if (!find_region(address, 1, &region)) return;
    const Range whole{region.address, region.address + region.bytes, touch(true, false)};
    works().add("free", Grid(), {{whole}, {}});
}

}  // namespace lowgraph
