#include "control.h"

#include "check_bits.h"
#include "context.h"
#include "engine.h"
#include "json_text.h"
#include "memory.h"
#include "queue.h"
#include "watchdog.h"

using namespace lowgraph;

void lowgraph_host_set_memory(uint64_t bytes) { set_memory_size(bytes); }

void lowgraph_host_set_blocking(int blocking) {
    const Lock hold(big_lock);
    set_blocking(blocking != 0);
}

void lowgraph_host_set_workers(int workers) {
    Lock lock(big_lock);
    finish_all(lock);
    engine_set_workers(workers);
}

size_t lowgraph_host_fault(char* out, size_t size) {
    std::string text;
    {
        const Lock hold(big_lock);
        text = fault_text();
    }
    return give_text(text, out, size);
}

void lowgraph_host_finish() {
    Lock lock(big_lock);
    finish_issued(lock);
}

void lowgraph_host_set_kernel_seconds(double seconds) { set_kernel_seconds(seconds); }

void lowgraph_host_mark_written(uint64_t ptr, uint64_t bytes) { mark_written(ptr, bytes); }

// A slice changes its state at its place in the order of the work: what was issued before may still
// use it, what is issued later may not. With nothing in flight that is now.
int lowgraph_host_annotate(uint64_t ptr, uint64_t bytes, int state, const char* name) {
    const Lock hold(big_lock);
    Region region;
    const bool known = bytes != 0 && find_region(ptr, bytes, &region) && region.pages != 0;
    if (!known || state < slice_gone || state > slice_live) return CUDA_ERROR_INVALID_VALUE;
    if (all_done())
        return annotate(ptr, bytes, state, name) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    enqueue_barrier([=, kept = std::string(name != nullptr ? name : "")] {
        annotate(ptr, bytes, state, kept.c_str());  // false: freed as a whole meanwhile
        return CUDA_SUCCESS;
    });
    return CUDA_SUCCESS;
}
