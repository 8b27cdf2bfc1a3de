// Device memory: one PROT_NONE reservation that the kernels' addresses come from.
//
// An allocation's mapped pages END at a guard page. Addresses stay 256-aligned, so up to 255 bytes
// of slack lie between the last byte asked for and the guard page; they hold a canary (NaN in every
// float format), as do the bytes between the first mapped page's start and the address.
//   caught at once (fault 700): any access to a guard page, to freed or never allocated memory, and
//     to the whole pages inside a freed slice;
//   caught at the end of the kernel: a write into slack behind an allocation or a slice, or into
//   the
//     part of a freed slice that shares a page with a live one;
//   caught at a free or a context synchronize: a write into the slack before an allocation;
//   not caught, but seen as NaN: a read of slack or of a freed slice's shared page.
// The tables have a lock of their own (never held while device memory is touched on a kernel's
// behalf), since describe_address is called from a faulting kernel thread.
#pragma once
#include <functional>
#include <string>

#include "entry.h"

namespace lowgraph {

enum class RegionKind { device, managed, pool, host, registered, global, mapped };
// What a pool's memory is: the device's, the host's (pinned), or managed.
enum class PoolKind { device, host, managed };
enum class RegionState {
    live,
    reserved,  // a stream-ordered or graph allocation whose alloc has not run: no access
    closing,   // a stream-ordered free is queued
    dead,      // freed; kept to name stale pointers until the addresses are needed again
};

// Where managed memory is to be, as it was last said of any part of it (entry_managed.cpp).
struct Advice {
    bool read_mostly = false;
    int preferred = CU_DEVICE_INVALID, accessed = CU_DEVICE_INVALID, prefetched = CU_DEVICE_INVALID;
};

struct Region {
    uint64_t address = 0;
    size_t bytes = 0;    // as asked for
    uint64_t pages = 0;  // start of the mapped pages, 0 for memory that is not ours
    size_t mapped = 0;
    RegionKind kind = RegionKind::device;
    PoolKind pool = PoolKind::device;  // of a pool's memory
    CUmemoryPool taken_from = nullptr;  // which pool's; null: none's, or a graph's
    Advice advice;                     // of managed memory
    RegionState state = RegionState::live;
    uint64_t id = 0;
    unsigned flags = 0;     // of cuMemHostAlloc / cuMemHostRegister
    bool of_graph = false;  // an alloc node's address: comes and goes with each launch
    std::string name;       // of a module's global
    const Context* owner = nullptr;  // null: of a pool, of a graph or of a module
};

// ---- allocations (OUT_OF_MEMORY when the settable size is used up) ----
CUresult allocate(RegionKind kind, size_t bytes, unsigned flags, const Context* owner, uint64_t* address);
// An address only, for an alloc that comes later: on a stream (`charged` now), or at each launch of
// a graph (charged by commit; the address stays reserved until abandon).
CUresult reserve(size_t bytes, bool charged, PoolKind pool, CUmemoryPool taken_from, uint64_t* address);
CUresult commit(uint64_t address);   // the alloc is reached: memory appears
CUresult release(uint64_t address);  // the free is reached: memory goes, the pointer becomes stale
// The address itself goes: an alloc node's graph is destroyed, a reservation failed to be used.
void abandon(uint64_t address);
CUresult register_host(uint64_t address, size_t bytes, unsigned flags, const Context* owner);
CUresult unregister_host(uint64_t address);
void register_global(uint64_t address, size_t bytes, const std::string& name);
void unregister_global(uint64_t address);

// The live region holding all of [address, address + bytes), copied out; false: there is none.
bool find_region(uint64_t address, size_t bytes, Region* region);
// Where the slice that holds the address lies, or else the live region; false: neither.
bool find_part(uint64_t address, uint64_t* start, uint64_t* end);
bool begin_free(uint64_t address);    // marks a live pool allocation `closing`; false: it is none
void mark_closing(uint64_t address);  // the same for a plain allocation that is freed on a stream
// ---- addresses by themselves (memory_mapped.cpp) ----
CUresult reserve_addresses(size_t bytes, size_t aligned_to, uint64_t* address);
void give_back_addresses(uint64_t address);
bool is_reserved(uint64_t address);
CUresult open_addresses(uint64_t address, size_t bytes, int file);  // the file's pages appear there
void close_addresses(uint64_t address);
bool charge_bytes(size_t bytes);  // of the device's size; false: it is used up
void uncharge_bytes(size_t bytes);

bool is_host_memory(const Region& region);
bool is_managed_memory(const Region& region);
bool is_managed(uint64_t address);  // of live memory
// Of live memory: mapped to reserved addresses, or of a pool of the device, which a driver maps too.
bool is_mapped(uint64_t address);
void note_advice(uint64_t address, const std::function<void(Advice&)>& note);
const Context* owner_of(uint64_t address);       // of live memory; null: nobody's
CUmemorytype memory_type(uint64_t address);      // of unified addressing; pageable counts as host
bool is_pinned(uint64_t address, size_t bytes);  // false: pageable

// ---- the device's size ----
void set_memory_size(size_t bytes);
size_t memory_size();
void memory_info(size_t* free_bytes, size_t* total_bytes);
size_t pool_bytes(bool high_water);
void reset_pool_high_water();
size_t graph_bytes(bool high_water);  // behind the alloc nodes of graphs
void reset_graph_high_water();

// ---- slices inside allocations ----
enum SliceState { slice_gone = 0, slice_free = 1, slice_live = 2 };
// Ordered by the caller after the work in flight. Returns false for a range outside live memory.
bool annotate(uint64_t address, size_t bytes, int state, const char* name);

// ---- checks ----
// Whether the whole range may be read and written now; else `text` says why (a freed slice ...).
bool check_access(uint64_t address, size_t bytes, std::string* text);
// Looks at the canaries; false: `text` names the allocation or slice that was written past.
bool check_canaries(bool heads_too, std::string* text);

void destroy_memory(const Context& owner);  // context teardown: what it allocated and registered
void destroy_all_memory();

}  // namespace lowgraph
