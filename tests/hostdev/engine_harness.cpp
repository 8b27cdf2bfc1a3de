// The engine without a driver around it: memory that ends at guard pages, and launches, for ctypes.
#include <cstdio>
#include <cstring>
#include <map>

#include <sys/mman.h>

#include "engine.h"

namespace {

constexpr uint64_t page = 4096;
struct Region {
    uint64_t bytes, pages;
    bool live;
};
std::map<uint64_t, Region>& regions = *new std::map<uint64_t, Region>;

uint64_t page_of(uint64_t address) { return address / page * page; }

}  // namespace

namespace lowgraph {

void describe_address(uint64_t address, char* out, size_t n) {
    auto after = regions.upper_bound(address);
    if (after == regions.begin()) {
        snprintf(out, n, "not device memory");
        return;
    }
    const auto& [begin, region] = *--after;
    if (address >= page_of(begin) + region.pages + page)
        snprintf(out, n, "not device memory");
    else if (!region.live)
        snprintf(out, n, "in freed memory");
    else
        snprintf(out, n, "%llu bytes past the end",
                 static_cast<unsigned long long>(address - begin - region.bytes));
}

bool in_device_memory(uint64_t address) { return address != 0; }

KernelCode kernel_code(uint64_t) { return {}; }
void place_of_code(uint64_t, char* out, size_t) { out[0] = '\0'; }
bool is_users_code(uint64_t) { return true; }

}  // namespace lowgraph

extern "C" {

// bytes at an address whose end is, but for rounding to 16, a guard page.
LOWGRAPH_ABI uint64_t harness_alloc(uint64_t bytes) {
    const uint64_t pages = (bytes + page - 1) / page * page;
    char* begin = static_cast<char*>(
        mmap(nullptr, pages + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(begin + pages, page, PROT_NONE);
    memset(begin, 0xff, pages);
    const uint64_t address = reinterpret_cast<uint64_t>(begin) + pages - (bytes + 15) / 16 * 16;
    regions[address] = {bytes, pages, true};
    return address;
}

LOWGRAPH_ABI void harness_free(uint64_t address) {
    Region& region = regions.at(address);
    mprotect(reinterpret_cast<void*>(page_of(address)), region.pages, PROT_NONE);
    region.live = false;
}

LOWGRAPH_ABI int harness_launch(const lowgraph::KernelEntry* kernel, const uint32_t* grid,
                                const uint32_t* block, uint32_t shared, void** params,
                                lowgraph::Fault* fault) {
    lowgraph::Launch launch{
        kernel, {grid[0], grid[1], grid[2]}, {block[0], block[1], block[2]}, shared, params};
    *fault = lowgraph::run_kernel(launch);
    return fault->code;
}

LOWGRAPH_ABI void harness_workers(int workers) { lowgraph::engine_set_workers(workers); }
LOWGRAPH_ABI void harness_rest() { lowgraph::engine_rest(); }
LOWGRAPH_ABI uint64_t harness_switches() { return lowgraph::engine_take_switches(); }

}  // extern "C"
