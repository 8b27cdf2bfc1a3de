// Barriers and warp operations: whether all come to them who must.
#include "race_detector.h"

namespace lowgraph {
namespace {

bool same(const WaitSite& a, const WaitSite& b) { return a.file == b.file && a.line == b.line; }

bool at_barrier(Block& block, uint32_t thread) {
    return block.warp_of(thread).at_barrier >> thread % 32 & 1;
}
bool has_returned(Block& block, uint32_t thread) {
    return block.warp_of(thread).returned >> thread % 32 & 1;
}

std::string some_wait(uint32_t count, const char* where) {
    const bool one = count == 1;
    return std::to_string(count) +
           (one ? " thread of the block waits " : " threads of the block wait ") + where;
}

// Where it has come to; a thread that has returned is at no place.
Site site_of_thread(Block& block, uint32_t thread) {
    const WaitSite wait = has_returned(block, thread) ? WaitSite{} : block.sites[thread];
    const Extent& size = lowgraph_thread.block_size;
    Site site = here(wait.file, wait.line);
    site.thread[0] = thread % size.x;
    site.thread[1] = thread / size.x % size.y;
    site.thread[2] = thread / size.x / size.y;
    return site;
}

// All lanes wait in warp operations: the first that the lane's mask names and that has another mask.
uint32_t first_elsewhere(const Warp& warp, uint32_t lane) {
    const uint32_t mask = warp.mask_of(lane);
    for (uint32_t rest = mask & warp.at_operation; rest != 0; rest &= rest - 1) {
        const auto other = static_cast<uint32_t>(__builtin_ctz(rest));
        if (warp.mask_of(other) != mask) return other;
    }
    return lane;
}

}  // namespace

void RaceDetector::barrier_completes(Block& block) {
    tell_pending();
    compare_sites(block);
    order_.barrier();
    log_.barrier();
    passes_.forget();
    for (Elsewhere& elsewhere : elsewhere_) elsewhere.lanes = 0;
}

// All threads of a block must come to the same barrier; those that have returned come to none.
void RaceDetector::compare_sites(Block& block) {
    const uint32_t threads = lowgraph_thread.threads;
    uint32_t first = threads, other = threads, gone = threads;
    uint32_t here_count = 0, other_count = 0, returned = 0;
    for (uint32_t thread = 0; thread < threads; ++thread) {
        if (has_returned(block, thread)) {
            if (returned++ == 0) gone = thread;
        } else if (first == threads || same(block.sites[thread], block.sites[first])) {
            if (here_count++ == 0) first = thread;
        } else if (other_count++ == 0) {
            other = thread;
        }
    }
    if (other_count != 0) {
        const Site site = site_of_thread(block, other);
        report(kind::divergent_barrier, site_of_thread(block, first), &site, 0,
               some_wait(here_count, "at this __syncthreads(), ") +
                   some_wait(other_count, "at another one"));
    }
    if (returned == 0) return;
    const WaitSite& wait = block.sites[first];
    const auto file = reinterpret_cast<uint64_t>(wait.file);
    if (!tell_first(file, static_cast<uint64_t>(wait.line))) return;
    const Site site = site_of_thread(block, gone);
    report(kind::divergent_barrier, site_of_thread(block, first), &site, 0,
           std::to_string(returned) + " of the block's " + std::to_string(threads) +
               " threads returned before this __syncthreads(), which all must reach");
}

void RaceDetector::operation_completes(Block& block, Warp& warp, uint32_t lanes) {
    tell_pending();
    const auto first = static_cast<uint32_t>(&warp - block.warps) * 32;
    check_sources(block, warp, lanes);
    check_named(block, warp, lanes);
    order_.operation(first, lanes);
    passes_.note(first / 32, block.sites[first + static_cast<uint32_t>(__builtin_ctz(lanes))]);
}

// A lane may read from those that take part in its operation alone.
void RaceDetector::check_sources(Block& block, Warp& warp, uint32_t lanes) {
    const auto first = static_cast<uint32_t>(&warp - block.warps) * 32;
    for (uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
        const auto lane = static_cast<uint32_t>(__builtin_ctz(rest));
        const uint32_t source = warp.source_of(lane);
        if (source == vote || lanes >> source & 1) continue;
        const char* const why = !(warp.mask_of(lane) >> source & 1) ? "which is not in the mask"
                                : warp.returned >> source & 1       ? "which has returned"
                                                                    : "which does not exist";
        const bool exists = warp.exist >> source & 1;
        Site other = exists ? site_of_thread(block, first + source) : Site();
        const bool waits = (warp.at_operation | warp.at_barrier) >> source & 1;
        if (!waits) other.file = nullptr, other.line = 0;  // it is on its way between two
        report(kind::shuffle_mask, site_of_thread(block, first + lane), exists ? &other : nullptr, 0,
               "reads from lane " + std::to_string(source) + ", " + why +
                   ": the value is undefined");
        block.to_end = true;
        return;
    }
}

// Lanes that the mask names, and that had not returned when the others came here, must come here too.
// Those that have been through another operation meanwhile and are gone have not.
void RaceDetector::check_named(Block& block, Warp& warp, uint32_t lanes) {
    const auto number = static_cast<uint32_t>(&warp - block.warps);
    Elsewhere& elsewhere = elsewhere_[number];
    const auto lane = static_cast<uint32_t>(__builtin_ctz(lanes));
    const uint32_t missed = warp.mask_of(lane) & warp.returned & elsewhere.lanes;
    elsewhere.lanes &= ~lanes;
    if (missed != 0) {
        const auto gone = static_cast<uint32_t>(__builtin_ctz(missed));
        Site other = site_of_thread(block, number * 32 + gone);
        other.file = elsewhere.sites[gone].file;
        other.line = elsewhere.sites[gone].line;
        char text[160];
        snprintf(text, sizeof text,
                 "the mask %08x names lane %u, which called a warp operation with the mask %08x "
                 "instead and returned: the result is undefined",
                 warp.mask_of(lane), gone, warp.mask_of(gone));
        report(kind::shuffle_mask, site_of_thread(block, number * 32 + lane), &other, 0, text);
    }
    for (uint32_t rest = warp.at_operation & ~lanes; rest != 0; rest &= rest - 1) {
        const uint32_t named = warp.mask_of(static_cast<uint32_t>(__builtin_ctz(rest))) & lanes;
        elsewhere.lanes |= named;
        for (uint32_t left = named; left != 0; left &= left - 1) {
            const auto one = static_cast<uint32_t>(__builtin_ctz(left));
            elsewhere.sites[one] = block.sites[number * 32 + one];
        }
    }
}

void RaceDetector::outside_mask(Block& block, uint32_t mask, const char* file, int line) {
    char text[120];
    snprintf(text, sizeof text, "lane %u calls a warp operation whose mask %08x does not name it",
             lowgraph_thread.linear % 32, mask);
    report(kind::shuffle_mask, here(file, line), nullptr, 0, text);
    block.to_end = true;
}

// Lanes that an operation's mask names wait at a barrier. A whole warp waits there too and has passed
// the operation, which comes first therefore: those lanes have left it out. Else it may as well be
// the barrier that the others have left out.
bool RaceDetector::tell_left_out(Block& block, uint32_t operation) {
    const uint32_t first = operation & ~31u;
    const Warp& warp = block.warp_of(operation);
    const uint32_t left_out = warp.mask_of(operation % 32) & warp.at_barrier;
    if (left_out == 0) return false;
    const uint32_t lane = static_cast<uint32_t>(__builtin_ctz(left_out));
    const WaitSite& wait = block.sites[operation];
    const auto is_ahead = [&](uint32_t other) {
        const Warp& whole = block.warps[other];
        return whole.at_barrier != 0 && whole.at_barrier == (whole.exist & ~whole.returned) &&
               same(block.sites[other * 32 + static_cast<uint32_t>(__builtin_ctz(whole.at_barrier))],
                    block.sites[first + lane]) &&
               passes_.count(other, wait) > passes_.count(first / 32, wait);
    };
    const uint32_t warps = (lowgraph_thread.threads + 31) / 32;
    uint32_t other = 0;
    while (other < warps && !is_ahead(other)) ++other;
    if (other == warps) return false;
    const Site where = site_of_thread(block, operation), barrier = site_of_thread(block, first + lane);
    char text[160];
    snprintf(text, sizeof text,
             "deadlock: the mask %08x names lane %u, which has left this operation out and waits at "
             "a __syncthreads()",
             warp.mask_of(operation % 32), lane);
    report(kind::shuffle_mask, where, &barrier, 0, text);
    return true;
}

// Whoever waits at a barrier waits for threads that do not come; with none there, the lanes of a
// mask do not come.
void RaceDetector::deadlock(Block& block) {
    const uint32_t threads = lowgraph_thread.threads;
    uint32_t barrier = threads, operation = threads, at_barriers = 0, at_operations = 0;
    for (uint32_t thread = 0; thread < threads; ++thread) {
        if (at_barrier(block, thread)) {
            if (at_barriers++ == 0) barrier = thread;
        } else if (!has_returned(block, thread) && at_operations++ == 0) {
            operation = thread;
        }
    }
    block.to_end = true;
    if (tell_left_out(block, operation)) return;
    const Site waiting = site_of_thread(block, operation);
    char mask[32];
    snprintf(mask, sizeof mask, "%08x", block.warp_of(operation).mask_of(operation % 32));
    const std::string lanes =
        some_wait(at_operations, "for lanes of the mask ") + mask + " that do not come";
    if (at_barriers == 0) {
        const uint32_t lane = first_elsewhere(block.warp_of(operation), operation % 32);
        const Site other = site_of_thread(block, (operation & ~31u) + lane);
        report(kind::shuffle_mask, waiting, &other, 0, "deadlock: " + lanes);
    } else
        report(kind::divergent_barrier, site_of_thread(block, barrier), &waiting, 0,
               "deadlock: " + some_wait(at_barriers, "at this __syncthreads(), ") + lanes);
}

}  // namespace lowgraph
