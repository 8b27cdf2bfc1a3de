// Rows of the table that cuGetProcAddress answers from.
#pragma once
#include <span>

namespace lowgraph {

struct ProcEntry {
    const char* name;  // as it is asked for, without a version suffix
    int version;       // CUDA version from which a caller means this ABI: 12030
    void* function;
};

std::span<const ProcEntry> device_procs();   // the device, contexts, errors
std::span<const ProcEntry> memory_procs();   // memory, copies, memsets
std::span<const ProcEntry> mapped_procs();   // addresses, and memory mapped to them
std::span<const ProcEntry> work_procs();     // streams, events, modules, launches
std::span<const ProcEntry> library_procs();  // cuLibrary*, cuKernel*
std::span<const ProcEntry> capture_procs();  // stream capture
std::span<const ProcEntry> graph_procs();    // graphs, executables, user objects

// The variant of a call for which stream 0 is the thread's own default stream; null: it has none.
void* per_thread_variant(void* function);

}  // namespace lowgraph
