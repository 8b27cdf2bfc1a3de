// What one piece of work has touched: which bytes, and which thread of a kernel touched each of them.
#pragma once
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "check.h"
#include "race_sites.h"

namespace lowgraph {

// Bytes that a work has touched alike.
struct Range {
    uint64_t start, end;
    Touch how;
    bool operator==(const Range&) const = default;
};

// Whose access to a unit of memory was the launch's last: the thread, numbered through the launch's
// blocks, and the site.
struct Toucher {
    uint64_t thread;
    uint32_t site;

    uint64_t code() const { return thread * max_sites + site; }
    static Toucher of(uint64_t code) {
        return {code / max_sites, static_cast<uint32_t>(code % max_sites)};
    }
};

// The touchers of all units, in little room: what lies side by side is mostly touched in turn, by
// neighbouring threads and by the same few sites.
class Touchers {
public:
    // Of neighbouring units of 1 << shift bytes, behind all that was added before.
    void add(uint64_t start, unsigned shift, const std::vector<uint64_t>& codes);
    Toucher at(uint64_t address) const;  // which was added

    bool operator==(const Touchers&) const = default;
    uint64_t hash() const;
    void shrink();

private:
    // Units from `start` on. Their codes are those from codes_[first] on; with a period, the first
    // so many are, and each later one is the one a period before it and `delta`.
    struct Row {
        uint64_t start, delta;
        uint32_t first;
        uint16_t period, shift;
        bool operator==(const Row&) const = default;
    };
    std::vector<Row> rows_;
    std::vector<uint64_t> codes_;
};

struct Touched {
    std::vector<Range> ranges;  // by address; of a kernel they do not overlap
    Touchers touchers;          // of a kernel

    bool operator==(const Touched&) const = default;
    void forget(uint64_t start, uint64_t end);  // these bytes are another allocation's
};
using SharedTouched = std::shared_ptr<const Touched>;

// A launch's, unit by unit in the order of addresses.
class TouchedBuilder {
public:
    void add(uint64_t start, unsigned shift, Touch how, Toucher toucher);
    Touched take();

private:
    Touched touched_;
    std::vector<uint64_t> codes_;  // of neighbouring units that touched_ lacks, the first at start_
    uint64_t start_ = 0, end_ = 0;
    unsigned shift_ = 0;
};

// Replays of a graph touch what they touched before: what is equal is held once.
class TouchedSets {
public:
    SharedTouched only(Touched&& touched);

private:
    std::unordered_map<uint64_t, std::weak_ptr<const Touched>> known_;  // by hash
    size_t most_ = 1024;  // then those that nobody holds any more go
};

}  // namespace lowgraph
