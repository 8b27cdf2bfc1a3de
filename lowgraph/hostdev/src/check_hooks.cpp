// What a kernel image of the check build calls (include/cuda_on_host/quiet.h), and the controls.
#include "block.h"
#include "check_access.h"
#include "check_bits.h"
#include "check_findings.h"
#include "check_index.h"
#include "check_launch.h"
#include "check_places.h"
#include "control.h"
#include "race.h"
#include "shuffle.h"
#include "watchdog.h"

using namespace lowgraph;

namespace {

Access plain(const void* p, uint32_t bytes, bool write, const void* pc) {
    return {reinterpret_cast<uint64_t>(p), bytes, write, false, reinterpret_cast<uint64_t>(pc), 0};
}

}  // namespace

extern "C" {

LEAVES_BY_SWITCH void lowgraph_check_read(const void* p, uint32_t bytes, const void* pc) {
    if (!see(plain(p, bytes, false, pc), true)) end_block();
}

LEAVES_BY_SWITCH void lowgraph_check_write(const void* p, uint32_t bytes, const void* pc) {
    if (!see(plain(p, bytes, true, pc), false)) end_block();
}

LEAVES_BY_SWITCH void lowgraph_check_aligned(const void* p, uint32_t bytes, int write, const void* pc) {
    const Access access = plain(p, bytes, write != 0, pc);
    look_at_alignment(access);
    if (!see(access, write == 0)) end_block();
}

LEAVES_BY_SWITCH void lowgraph_check_atomic(const void* p, uint32_t bytes, int what, int order,
                                            const void* pc) {
    Access access = plain(p, bytes, what != 0, pc);
    access.atomic = true;
    access.order = order;
    access.of_block = what == 3;
    look_at_alignment(access);
    if (!see(access, what != 2)) end_block();
}

void lowgraph_check_fence(int order) {
    if (order != __ATOMIC_RELAXED) race_fence(true);
}

LEAVES_BY_SWITCH void lowgraph_check_alignment(const char* file, int line, uint64_t alignment,
                                               uint64_t address, int write) {
    if (address < page_bytes) return;  // a null pointer: told by the access itself
    if (is_overdue(*lowgraph_thread.runner->job)) {
        lowgraph_thread.runner->sites[lowgraph_thread.linear] = {file, line};
        end_overdue(0);
    }
    Site where = here(file, line);
    where.access = write != 0 ? access::write : access::read;
    report_misaligned(where, alignment, address);
    if (alignment >= 16) end_block();  // the CPU's vector instructions refuse it too
}

// No access yet; but one that a compiler made wide by the promise is what a GPU refuses.
void lowgraph_check_promise(const char* file, int line, uint64_t alignment, uint64_t address) {
    char text[200];
    snprintf(text, sizeof text,
             "promises (__builtin_assume_aligned) that 0x%llx is a multiple of %llu, which it is "
             "not: a GPU refuses the wide access that may be made of it",
             static_cast<unsigned long long>(address), static_cast<unsigned long long>(alignment));
    report_named(kind::misaligned, here(file, line), touched_name(address), text);
}

void lowgraph_check_index(const char* file, int line, const char* type, int64_t index) {
    hold_index(file, line, type, index);
    forget_places();  // the access that follows is looked up
}

// The access is never announced, and would be made in the stack: the block ends.
LEAVES_BY_SWITCH void lowgraph_check_local_index(const char* file, int line, const char* type,
                                                 int64_t index) {
    tell_local_index(file, line, type, index);
    end_block();
}

void lowgraph_host_set_check() {
    if (check_is_on) return;
    check_is_on = true;
    keep_order();
    start_device_bits();
    race_start();
    watch_blocks();
    engine_set_workers(1);
}

uint64_t lowgraph_host_launches_checked() { return launches_checked(); }

}  // extern "C"
