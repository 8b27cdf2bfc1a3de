// The detector's launches and blocks, and how a race is told.
#include "race_detector.h"

#include <algorithm>
#include <cstring>

#include "check_findings.h"
#include "check_places.h"
#include "memory.h"

namespace lowgraph {
namespace {

const char* verb(bool write, bool atomic, bool past) {
    if (atomic && write) return past ? "updated atomically" : "atomically updates";
    if (write) return past ? "wrote" : "writes";
    return past ? "read" : "reads";
}

const char* access_of(bool write, bool atomic) {
    if (atomic) return write ? access::update : access::atomic_read;
    return write ? access::write : access::read;
}

// The size that a write needs at most to be compared: a vector of four.
constexpr uint32_t comparable = 16;

}  // namespace

RaceDetector& RaceDetector::instance() {
    static RaceDetector& detector = *new RaceDetector;
    return detector;
}

void race_start() { watcher = &RaceDetector::instance(); }

void RaceDetector::launch_begins(const Job& job) {
    if (order_.worn()) {
        order_.rewind();
        global_.forget();
        shared_.forget();
    }
    job_ = &job;
    grid_ = grid_of(*job.launch);
    order_.begin_launch();
    log_.begin_launch();
    global_.begin_launch();
    shared_.begin_launch();
    block_starts_.clear();
    near_block_ = 0;
    told_.clear();
}

void RaceDetector::launch_ends() {
    tell_pending();
    works().add(job_->launch->kernel->name, grid_, touched_by_launch());
    job_ = nullptr;
}

void RaceDetector::block_begins(Block&, uint64_t) {
    tell_pending();
    order_.begin_block();
    log_.begin_block();
    passes_.forget();
    for (Elsewhere& elsewhere : elsewhere_) elsewhere.lanes = 0;
    block_starts_.push_back(order_.block_start);
}

bool RaceDetector::tell_first(uint64_t one_place, uint64_t other_place, const std::string& memory) {
    const auto [first, second] = std::minmax(one_place, other_place);
    return told_.emplace(first, second, memory).second;
}

void RaceDetector::found(Mark mark, bool wrote, const Look& look) {
    const Access& access = look.access;
    const std::string memory = touched_name(access.address);
    if (!tell_first(access.pc, sites_.pc(mark.site()), memory)) return;
    const char* const name = look.space == Space::shared ? kind::shared_race : kind::global_race;
    Site where = here(access.pc), other = site_of(mark);
    where.access = access_of(access.write, access.atomic);
    other.access = access_of(wrote, mark.atomic());
    std::string text = describe(mark, wrote, look, memory);
    const bool plain = !access.atomic && !mark.atomic();
    if (!(wrote && access.write && plain && access.bytes <= comparable))
        return report_named(name, where, memory, text, &other);
    pending_ = {name, where, other, access.address, access.bytes, {}, std::move(text), memory};
    std::memcpy(pending_.before, reinterpret_cast<const void*>(access.address), access.bytes);
}

void RaceDetector::tell_pending() {
    if (__builtin_expect(pending_.kind == nullptr, 1)) return;
    const char* const name = pending_.kind;
    pending_.kind = nullptr;
    const auto* const now = reinterpret_cast<const void*>(pending_.address);
    if (std::memcmp(pending_.before, now, pending_.bytes) == 0)
        pending_.text += "; both wrote the same value";
    report_named(name, pending_.where, pending_.memory, pending_.text, &pending_.other);
}

std::string RaceDetector::describe(Mark mark, bool wrote, const Look& look,
                                   const std::string& memory) const {
    const Access& access = look.access;
    const bool own_block = in_this_block(mark), own_warp = mark.warp() == look.mark.warp();
    std::string text = verb(access.write, access.atomic, false);
    text += access.bytes == 1 ? " 1 byte" : " " + std::to_string(access.bytes) + " bytes";
    if (look.space == Space::shared) text += " of " + memory;
    if (access.copy_since != 0) text += " as its asynchronous copy arrives";
    text += " that ";
    text += !own_block ? "another block "
            : mark.thread() == look.mark.thread() ? "it "
            : own_warp ? "another lane of its warp "
                       : "another thread of its block ";
    text += verb(wrote, mark.atomic(), true);
    if (wrote && wrote_under_way(mark, look)) return text + " while that was under way";
    if (!own_block) {
        text += ", with no __threadfence() and atomic between them";
        if (access.of_block || sites_.is_of_block(mark.site()))
            text += "; an atomic of block scope (..._block) holds within its block only";
        return text + note_on_arguments(access.address);
    }
    text += own_warp ? ", with no __syncwarp() or __syncthreads() between them"
                     : ", with no __syncthreads() between them";
    return look.space == Space::global ? text + note_on_arguments(access.address) : text;
}

// An output that is an input too is the likeliest reason for a race that nobody sees in the kernel.
std::string RaceDetector::note_on_arguments(uint64_t address) const {
    const KernelEntry& kernel = *job_->launch->kernel;
    uint64_t start = 0, end = 0;
    if (!find_part(address, &start, &end)) return "";
    std::string numbers;
    int count = 0;
    for (int i = 0; i < kernel.param_count; ++i) {
        uint64_t value = 0;
        if (kernel.sizes[i] != sizeof value) continue;
        std::memcpy(&value, job_->launch->params[i], sizeof value);
        if (value < start || value >= end) continue;
        if (count++ != 0) numbers += " and ";
        numbers += std::to_string(i);
    }
    return count < 2 ? "" : "; arguments " + numbers + " (from 0) point into the same memory";
}

}  // namespace lowgraph
