#include "fault.h"

#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "block.h"
#include "watcher.h"

namespace lowgraph {
namespace {

void copy(uint32_t (&to)[3], const Index& from) {
    to[0] = from.x;
    to[1] = from.y;
    to[2] = from.z;
}

// Threads that wait at one kind of place, for the text of a deadlock.
struct Waiting {
    uint32_t count = 0, example = 0;

    void add(uint32_t thread) {
        if (count++ == 0) example = thread;
    }
};

const char* base_name(const char* path) {
    const char* slash = std::strrchr(path, '/');
    return slash != nullptr ? slash + 1 : path;
}

}  // namespace

void fault_here(int code, uint64_t address, const char* format, ...) {
    Block& block = *lowgraph_thread.runner;
    Job& job = *block.job;
    if (job.faulted.exchange(true)) return;
    Fault& fault = job.fault;
    fault.code = code;
    fault.address = address;
    fault.instruction = block.faulted_at;
    copy(fault.block, lowgraph_thread.block);
    copy(fault.thread, lowgraph_thread.thread);
    char what[360];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    snprintf(fault.text, sizeof fault.text,
             "kernel '%.80s', block (%u,%u,%u), thread (%u,%u,%u): %s", job.launch->kernel->name,
             fault.block[0], fault.block[1], fault.block[2], fault.thread[0], fault.thread[1],
             fault.thread[2], what);
}

LEAVES_BY_SWITCH void Block::deadlock() {
    if (watched()) watcher->deadlock(*this);
    if (to_end) abandon();
    Waiting barrier, operation;
    for (uint32_t thread = 0; thread < lowgraph_thread.threads; ++thread) {
        const Warp& warp = warp_of(thread);
        if (warp.at_barrier >> thread % 32 & 1) barrier.add(thread);
        if (warp.at_operation >> thread % 32 & 1) operation.add(thread);
    }
    char at_sync[140] = "", at_warp[140] = "";
    if (barrier.count != 0) {
        const WaitSite& site = sites[barrier.example];
        snprintf(at_sync, sizeof at_sync, "; %u wait at a barrier (%.60s:%d, thread number %u)",
                 barrier.count, base_name(site.file), site.line, barrier.example);
    }
    if (operation.count != 0) {
        const WaitSite& site = sites[operation.example];
        snprintf(at_warp, sizeof at_warp,
                 "; %u wait at a warp operation (%.60s:%d, thread number %u, mask %08x)",
                 operation.count, base_name(site.file), site.line, operation.example,
                 warp_of(operation.example).mask_of(operation.example % 32));
    }
    fault_here(719, 0, "deadlock: no thread of the block can go on%s%s; %u of %u have returned",
               at_sync, at_warp, lowgraph_thread.threads - alive, lowgraph_thread.threads);
    abandon();
}

}  // namespace lowgraph
