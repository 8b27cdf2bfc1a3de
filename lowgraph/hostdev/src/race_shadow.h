// What the race detector remembers of memory: for each unit of it the last accesses that a later
// one could race with, and for each byte how the launch that runs touched it.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <unordered_map>
#include <vector>

namespace lowgraph {

// One access: when, by which thread, from where. The time of a launch's blocks does not overlap, so
// the clock tells the block too. 0: none.
struct Mark {
    uint32_t clock = 0;
    uint32_t who = 0;  // thread number, then whether it was atomic, then the number of the site

    static Mark make(uint32_t clock, uint32_t thread, bool atomic, uint32_t site) {
        return {clock, thread | (atomic ? 1u << 10 : 0) | site << 11};
    }
    uint32_t thread() const { return who & 1023; }
    uint32_t warp() const { return thread() / 32; }
    bool atomic() const { return who >> 10 & 1; }
    uint32_t site() const { return who >> 11; }
    bool same_moment(Mark other) const {
        return clock == other.clock && thread() == other.thread();
    }
};
constexpr uint32_t max_sites = 1u << 21;

// How a byte was touched: one bit for each kind of access, by its number.
using Touch = uint8_t;
constexpr unsigned touch_kinds = 4;
constexpr unsigned touch_kind(bool write, bool atomic) { return (atomic ? 2 : 0) + (write ? 1 : 0); }
constexpr Touch touch(bool write, bool atomic) { return Touch(1u << touch_kind(write, atomic)); }
constexpr bool has_write(Touch how) { return how & (touch(true, false) | touch(true, true)); }
// Atomics do not race with one another: those of two nodes of a graph neither.
constexpr bool may_race(Touch a, Touch b) {
    const auto one_way = [](Touch x, Touch y) {
        return (x & touch(true, false) && y != 0) ||
               (x & touch(true, true) && y & touch(false, false));
    };
    return one_way(a, b) || one_way(b, a);
}

// Of one unit. A plain write forgets the reads and atomics before it: what comes later is ordered
// after them if it is ordered after the write, unless they raced with the write already.
// Of reads, the last one alone would hide earlier ones by threads that the next writer is not
// ordered after. Threads are ordered by warp, by block or across blocks, so the last is kept with
// the last one of another lane, of another warp and of another block.
struct Cell {
    Mark writer;
    Mark readers[4];  // the last; same warp, another lane; same block, another warp; another block
    Mark atomics[2];  // the last one that wrote; the last of another block than that

    bool is_only_written() const { return readers[0].clock == 0 && atomics[0].clock == 0; }
};

struct Page {
    static constexpr uint64_t bytes = 4096;

    explicit Page(uint64_t page_number)
        : number(page_number), cells(make_cells(bytes >> shift)) {}

    Cell& cell_at(uint64_t address) { return cells.get()[(address % bytes) >> shift]; }
    const Cell& cell_at(uint64_t address) const { return cells.get()[(address % bytes) >> shift]; }
    // Cells for units of 1 << smaller bytes, each with what its whole remembered.
    void refine(unsigned smaller);

    struct Free {
        void operator()(Cell* memory) const { std::free(memory); }
    };
    static Cell* make_cells(size_t count) {
        return static_cast<Cell*>(std::calloc(count, sizeof(Cell)));
    }

    const uint64_t number;
    uint32_t launch = 0;  // the start of the launch that the bits are of
    unsigned shift = 2;   // a unit is 1 << shift bytes: 4, until an access needs a smaller one
    uint64_t touched[touch_kinds][bytes / 64] = {};
    std::unique_ptr<Cell, Free> cells;  // zeroed by the system when first touched
};

class Shadow {
public:
    Page& page_of(uint64_t address) {
        const uint64_t number = address / Page::bytes;
        Page*& near = near_[number % slots];
        if (__builtin_expect(near == nullptr || near->number != number, 0)) near = find(number);
        return *near;
    }
    // Notes the bytes, all in the page, as touched by the launch that began at `launch`.
    void note(Page& page, uint64_t address, uint32_t bytes, unsigned kind, uint32_t launch);
    std::vector<Page*>& touched() { return touched_; }  // by `note`, since the last `begin_launch`
    // Between launches only the bits of the last one matter: pages go when they are many.
    void begin_launch();
    void forget();

private:
    static constexpr size_t slots = 1024;
    static constexpr size_t most_pages = 8192;  // 58 KB each

    Page* find(uint64_t number);

    Page* near_[slots] = {};
    std::unordered_map<uint64_t, std::unique_ptr<Page>> pages_;
    std::vector<Page*> touched_;
};

inline void Shadow::note(Page& page, uint64_t address, uint32_t bytes, unsigned kind,
                         uint32_t launch) {
    if (page.launch != launch) {
        page.launch = launch;
        for (auto& bits : page.touched)
            for (uint64_t& word : bits) word = 0;
        touched_.push_back(&page);
    }
    uint64_t* const bits = page.touched[kind];
    uint64_t at = address % Page::bytes;
    for (const uint64_t end = at + bytes; at < end;) {
        const uint64_t stop = end < (at | 63) + 1 ? end : (at | 63) + 1;
        bits[at / 64] |= ~uint64_t{0} >> (64 - (stop - at)) << at % 64;
        at = stop;
    }
}

}  // namespace lowgraph
