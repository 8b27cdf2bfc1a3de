// What each piece of work has touched, and the works that touch the same bytes with nothing to
// order them: kernels, copies and memsets of different streams, or nodes of a graph without a path.
#pragma once
#include <deque>
#include <mutex>
#include <string>

#include "check.h"
#include "race_grid.h"
#include "race_order.h"
#include "race_touched.h"

namespace lowgraph {

struct WorkRecord {
    const char* name;  // of static storage duration
    Grid grid;         // of a kernel
    RunningWork place;
    SharedTouched touched;
};

class Works {
public:
    // A work has ended. Compares it with those that are not ordered, and keeps it.
    void add(const char* name, const Grid& grid, Touched&& touched);
    // Work that is before all that is still to run is no longer needed.
    void retire(const Before& common);
    // Memory that is allocated anew: what was done with its addresses before is over.
    void forget(uint64_t start, uint64_t end);

private:
    // Kept of one stream; older ones go unseen. About ten replays of a large graph.
    static constexpr size_t most_kept = 20000;

    void compare(const WorkRecord& earlier, const WorkRecord& later) const;

    std::mutex lock_;
    std::unordered_map<uint64_t, std::deque<WorkRecord>> of_stream_;
    TouchedSets sets_;
};

Works& works();

}  // namespace lowgraph
