#include "check_copies.h"

#include "block.h"
#include "images.h"

namespace lowgraph {
namespace {

struct WideWrite {
    uint64_t address = 0, pc = 0;
    uint32_t bytes = 0, thread = 0;
    WrittenBits written;
};
WideWrite last;  // one launch runs at a time, on one OS thread

bool same_line(uint64_t one, uint64_t other) {
    const SourceLine a = source_line(one - 1), b = source_line(other - 1);
    return a.line == b.line && a.file == b.file;
}

}  // namespace

void note_wide_write(const Access& access, const WrittenBits& written) {
    last = {access.address, access.pc, access.bytes, lowgraph_thread.linear, written};
}

bool copies_holes(const Access& access, const WrittenBits& written) {
    const WideWrite to = last;
    last.bytes = 0;
    const bool pair = to.bytes == access.bytes && to.thread == lowgraph_thread.linear;
    if (!pair || !same_line(to.pc, access.pc)) return false;
    uint32_t holes = 0;
    for (uint32_t i = 0; i < access.bytes; ++i)
        holes += written.unwritten(access.address + i, 1) != 0;
    if (holes == access.bytes) return false;  // nothing of it is there: no struct's padding
    for (uint32_t i = 0; i < access.bytes; ++i)
        if (written.unwritten(access.address + i, 1) != 0) to.written.fill(to.address + i, 1, false);
    return true;
}

}  // namespace lowgraph
