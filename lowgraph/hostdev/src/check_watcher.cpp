// What the checker does at the engine's events, before the race detector hears of them.
#include "block.h"
#include "check_access.h"
#include "check_findings.h"
#include "check_heap.h"
#include "check_launch.h"
#include "check_places.h"
#include "images.h"
#include "memory_tables.h"
#include "watcher.h"

namespace lowgraph {
namespace {

class CheckWatcher final : public Watcher {
public:
    explicit CheckWatcher(Watcher* races) : races_(races) {}

    void launch_begins(const Job& job) override {
        renew_heap();
        if (races_) races_->launch_begins(job);
    }
    void launch_ends() override { if (races_) races_->launch_ends(); }
    void block_begins(Block& block, uint64_t index) override {
        note_stacks();
        reset_shared_bits();
        if (races_) races_->block_begins(block, index);
    }
    void barrier_completes(Block& block) override { if (races_) races_->barrier_completes(block); }
    void operation_completes(Block& block, Warp& warp, uint32_t lanes) override {
        if (races_) races_->operation_completes(block, warp, lanes);
    }
    void outside_mask(Block& block, uint32_t mask, const char* file, int line) override {
        if (races_) races_->outside_mask(block, mask, file, line);
    }
    void deadlock(Block& block) override { if (races_) races_->deadlock(block); }

    void copy_starts(Block& block, AsyncCopy& copy) override {
        if (!see_copy_start(copy)) block.to_end = true;
    }
    void copy_arrives(Block& block, const AsyncCopy& copy) override {
        if (!see_copy_arrive(copy)) block.to_end = true;
    }

    bool bad_access(uint64_t address, bool write, uint64_t pc) override {
        char where[240];
        describe_address(address, where, sizeof where);
        const char* name = in_device_memory(address) ? kind::out_of_bounds : kind::host_pointer;
        Site site = here(pc);
        site.access = write ? access::write : access::read;
        report(address < page_bytes ? kind::out_of_bounds : name, site, nullptr, address,
               std::string(site.access) + " " + where);
        return true;
    }
    void stop_wanted() override { forget_places(); }
    bool overdue(const Job&, uint64_t pc, const char* text) override {
        const WaitSite& wait = lowgraph_thread.runner->sites[lowgraph_thread.linear];
        report(kind::endless_kernel, pc == 0 ? here(wait.file, wait.line) : here(pc), nullptr, 0, text);
        return true;
    }

private:
    Watcher* const races_;
};

}  // namespace

void watch_blocks() { watcher = new CheckWatcher(watcher); }  // for the life of the process

}  // namespace lowgraph
