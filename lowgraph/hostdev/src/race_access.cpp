// Each access, compared with those before it that nothing orders it after.
#include <algorithm>
#include <cstring>

#include "race_detector.h"

namespace lowgraph {
namespace {

bool releases(int order) {
    return order == __ATOMIC_RELEASE || order == __ATOMIC_ACQ_REL || order == __ATOMIC_SEQ_CST;
}

}  // namespace

void race_access(const Access& access, Space space) {
    static RaceDetector& detector = RaceDetector::instance();
    detector.access(access, space);
}

uint32_t race_now() { return RaceDetector::instance().now(); }

void race_fence(bool device) { RaceDetector::instance().fence(device); }

}  // namespace lowgraph

extern "C" void lowgraph_check_block_fence() { lowgraph::race_fence(false); }

namespace lowgraph {

// The thread has done the same since it last waited, and nobody has written since: most of what
// loops do.
inline bool RaceDetector::seen_before(const Access& access, Space space) {
    Page& page = (space == Space::shared ? shared_ : global_).page_of(access.address);
    const bool one_unit =
        access.bytes == 1u << page.shift && access.address % access.bytes == 0 && !access.atomic;
    if (!one_unit) return false;
    const uint32_t thread = lowgraph_thread.linear;
    const Mark now = Mark::make(order_.clock_of(thread), thread, false, 0);
    const Cell& cell = page.cell_at(access.address);
    if (access.write) return cell.writer.same_moment(now) && cell.is_only_written();
    return cell.readers[0].same_moment(now) && !cell.readers[0].atomic();
}

void RaceDetector::access(const Access& access, Space space) {
    if (__builtin_expect(pending_.kind != nullptr, 0)) tell_pending();
    if (!seen_before(access, space)) compare(access, space);
}

void RaceDetector::compare(const Access& access, Space space) {
    const uint32_t thread = lowgraph_thread.linear;
    if (access.atomic) {
        if (access.write && releases(access.order)) order_.fence(thread, true);
        log_.acquire(access.address, thread);
    }
    const Mark mark = Mark::make(order_.clock_of(thread), thread, access.atomic,
                                 sites_.number_of(access.pc));
    if (access.of_block) sites_.set_of_block(mark.site());
    const uint32_t horizon =
        space == Space::shared ? order_.block_start : order_.launch_start;
    const Look look{access, space, mark, horizon};
    uint64_t at = access.address;
    for (const uint64_t end = at + access.bytes; at < end;) {
        const uint64_t stop = std::min(end, (at / Page::bytes + 1) * Page::bytes);
        look_at_page(look, at, static_cast<uint32_t>(stop - at));
        at = stop;
    }
    if (access.atomic && access.write) log_.release(access.address, thread);
}

void RaceDetector::look_at_page(const Look& look, uint64_t address, uint32_t bytes) {
    Shadow& shadow = look.space == Space::shared ? shared_ : global_;
    Page& page = shadow.page_of(address);
    if (look.space == Space::global)
        shadow.note(page, address, bytes, touch_kind(look.access.write, look.access.atomic && !look.access.of_block),
                    order_.launch_start);
    if (const uint64_t ends = address | bytes; ends & ((1u << page.shift) - 1))
        page.refine(ends & 1 ? 0 : 1);
    const uint64_t step = uint64_t{1} << page.shift;
    for (uint64_t at = address; at < address + bytes; at += step) {
        Cell& cell = page.cell_at(at);
        if (look.access.atomic && look.access.write) write_atomically(cell, look);
        else if (look.access.atomic) read_atomically(cell, look);
        else if (look.access.write) write(cell, look);
        else read(cell, look);
    }
}

void RaceDetector::read(Cell& cell, const Look& look) {
    expect_order(cell.writer, true, look);
    for (const Mark& atomic : cell.atomics) expect_order(atomic, true, look);
    remember_reader(cell, look);
}

// Atomics at one place have an order among themselves: a write that comes after the last one comes
// after all. (A read that does may still miss what another block has added.)
void RaceDetector::write(Cell& cell, const Look& look) {
    expect_order(cell.writer, true, look);
    if (!cell.is_only_written()) {
        for (const Mark& reader : cell.readers) expect_order(reader, false, look);
        expect_order(cell.atomics[0], true, look);
        cell = Cell();
    }
    cell.writer = look.mark;
}

void RaceDetector::read_atomically(Cell& cell, const Look& look) {
    expect_order(cell.writer, true, look);
    remember_reader(cell, look);
}

void RaceDetector::write_atomically(Cell& cell, const Look& look) {
    expect_order(cell.writer, true, look);
    for (const Mark& reader : cell.readers)
        if (!reader.atomic()) expect_order(reader, false, look);
    for (const Mark& atomic : cell.atomics) {
        const bool narrow = look.access.of_block || sites_.is_of_block(atomic.site());
        if (narrow && !in_this_block(atomic)) expect_order(atomic, true, look);
    }
    if (!in_this_block(cell.atomics[0])) cell.atomics[1] = cell.atomics[0];
    cell.atomics[0] = look.mark;
}

void RaceDetector::remember_reader(Cell& cell, const Look& look) const {
    Mark& last = cell.readers[0];
    if (last.clock != 0 && !(in_this_block(last) && last.thread() == look.mark.thread())) {
        if (!in_this_block(last)) {
            cell.readers[3] = last;
            cell.readers[1] = cell.readers[2] = Mark();
        } else if (last.warp() == look.mark.warp()) {
            cell.readers[1] = last;
        } else {
            cell.readers[2] = last;
            cell.readers[1] = Mark();
        }
    }
    last = look.mark;
}

}  // namespace lowgraph
