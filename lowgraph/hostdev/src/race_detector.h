// The detector: what the engine's hooks and the kernels' accesses come to.
#pragma once
#include <set>
#include <tuple>

#include "block.h"
#include "race.h"
#include "race_grid.h"
#include "race_passes.h"
#include "race_sites.h"
#include "race_sync.h"
#include "race_works.h"
#include "watcher.h"

namespace lowgraph {

class RaceDetector final : public Watcher {
public:
    static RaceDetector& instance();

    void launch_begins(const Job& job) override;
    void launch_ends() override;
    void block_begins(Block& block, uint64_t index) override;
    void barrier_completes(Block& block) override;
    void operation_completes(Block& block, Warp& warp, uint32_t lanes) override;
    void outside_mask(Block& block, uint32_t mask, const char* file, int line) override;
    void deadlock(Block& block) override;

    void access(const Access& access, Space space);
    uint32_t now() const { return order_.now(); }
    void fence(bool device) { order_.fence(lowgraph_thread.linear, device); }

private:
    // What the cells of one access are compared with.
    struct Look {
        const Access& access;
        Space space;
        Mark mark;
        uint32_t horizon;  // older marks are of an earlier launch (shared memory: block)
    };
    // Two writes are compared once the second has been made.
    struct Pending {
        const char* kind = nullptr;
        Site where, other;
        uint64_t address = 0;
        uint32_t bytes = 0;
        unsigned char before[16];
        std::string text, memory;
    };

    // Lanes that another one waits for in an operation, and that have been through a different one.
    struct Elsewhere {
        uint32_t lanes = 0;
        WaitSite sites[32];
    };

    bool seen_before(const Access& access, Space space);
    void compare(const Access& access, Space space);
    void look_at_page(const Look& look, uint64_t address, uint32_t bytes);
    void read(Cell& cell, const Look& look);
    void write(Cell& cell, const Look& look);
    void read_atomically(Cell& cell, const Look& look);
    void write_atomically(Cell& cell, const Look& look);
    void remember_reader(Cell& cell, const Look& look) const;
    bool in_this_block(Mark mark) const { return mark.clock >= order_.block_start; }
    // The access must come after the mark's, which wrote or else read; and nobody may have written
    // what a copy that arrives was under way with, however barriers order the two.
    void expect_order(Mark mark, bool wrote, const Look& look) {
        if (mark.clock < look.horizon) return;
        if (wrote && wrote_under_way(mark, look)) return found(mark, wrote, look);
        if (in_this_block(mark) && order_.follows(look.mark.thread(), mark)) return;
        if (!log_.follows(look.mark.thread(), mark)) found(mark, wrote, look);
    }

    static bool wrote_under_way(Mark mark, const Look& look) {
        const uint32_t since = look.access.copy_since;
        return __builtin_expect(since != 0, 0) && mark.clock > since;
    }

    bool tell_first(uint64_t one_place, uint64_t other_place, const std::string& memory = "");
    void found(Mark mark, bool wrote, const Look& look);
    std::string describe(Mark mark, bool wrote, const Look& look, const std::string& memory) const;
    std::string note_on_arguments(uint64_t address) const;
    Site site_of(Mark mark) const { return grid_.site(thread_of(mark), sites_.pc(mark.site())); }
    void tell_pending();

    // race_launch.cpp
    uint64_t thread_of(Mark mark) const;
    Mark last_access(const Cell& cell, bool write) const;
    void add_touched(const Page& page, TouchedBuilder& touched) const;
    Touched touched_by_launch();

    // race_barriers.cpp
    bool tell_left_out(Block& block, uint32_t operation);
    void compare_sites(Block& block);
    void check_sources(Block& block, Warp& warp, uint32_t lanes);
    void check_named(Block& block, Warp& warp, uint32_t lanes);

    const Job* job_ = nullptr;
    Grid grid_;
    ThreadOrder order_;
    SyncLog log_{order_};
    Passes passes_;
    Elsewhere elsewhere_[Block::max_warps];
    Shadow global_, shared_;
    Sites& sites_ = sites();
    std::vector<uint32_t> block_starts_;
    mutable uint64_t near_block_ = 0;  // the one that thread_of found last
    // Pairs of places in the code that this launch has told of, smaller first, with the memory.
    std::set<std::tuple<uint64_t, uint64_t, std::string>> told_;
    Pending pending_;
};

}  // namespace lowgraph
