// Private to memory.cpp, slices.cpp and describe.cpp: the tables behind memory.h.
#pragma once
#include <deque>
#include <map>
#include <set>

#include "fibers.h"  // page_bytes
#include "memory.h"

namespace lowgraph {

constexpr uint64_t alignment = 256;

constexpr uint64_t round_up(uint64_t value, uint64_t unit) {
    return (value + unit - 1) / unit * unit;
}
constexpr uint64_t round_down(uint64_t value, uint64_t unit) { return value / unit * unit; }

struct Slice {
    uint64_t address = 0;
    size_t bytes = 0;
    uint64_t end = 0;  // of the slack behind it: the next 256-byte boundary at most
    bool live = false;
    std::string name;
};

// Bytes that hold a known pattern and that nobody may write.
struct Guard {
    uint64_t address = 0, end = 0;
    bool poison = false;  // 0xFF of a freed slice; else the canary
    bool head = false;    // before an allocation: looked at only when everything is
    uint64_t owner = 0;   // start of the slice or allocation that it belongs to
};

struct Tables {
    std::mutex lock;
    uint64_t base = 0, end = 0;          // the reservation
    uint64_t next = 0;                   // never used from here on
    std::map<uint64_t, Region> regions;  // by address; dead ones too
    std::map<uint64_t, uint64_t> reserved;  // addresses by themselves: start and end
    std::set<uint64_t> open;             // of these the ones that can be read now
    std::deque<uint64_t> dead;           // oldest first
    std::map<uint64_t, Slice> slices;    // by address; they do not overlap
    std::vector<Guard> guards;
    bool guards_stale = true;
    size_t size = 0, used = 0, pool_used = 0, pool_peak = 0;
    size_t graph_used = 0, graph_peak = 0;  // part of the above: behind alloc nodes
    uint64_t next_id = 1;
};

Tables& tables();  // leaked: a kernel may fault while the process is being torn down
using TableLock = std::lock_guard<std::mutex>;

// Helpers; the caller holds the tables' lock.
Region* region_at(uint64_t address);  // dead ones too; null: none covers it
Region* live_region(uint64_t address, size_t bytes);
bool is_mapped(const Region& region);  // ours, and can be read now
void write_canary(uint64_t from, uint64_t to);
void drop_slices(uint64_t from, uint64_t to);               // opens the pages of the free ones
bool protect(uint64_t from, uint64_t to, bool accessible);  // the whole pages inside
std::string describe(uint64_t address);

}  // namespace lowgraph
