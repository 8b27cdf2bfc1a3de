#include "counters.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>

#include "control.h"
#include "entry.h"

namespace lowgraph {
namespace {

struct Table {
    std::mutex lock;
    std::map<std::string, std::unique_ptr<Counter>> counters;
};

// Leaked: entry points may be called while the process is being torn down.
Table& table() {
    static Table* const instance = new Table;
    return *instance;
}

// "cuMemAlloc_v2" counts as "cuMemAlloc": the name that callers write.
std::string public_name(const std::string& name) {
    const size_t end = name.rfind("_v");
    const bool version = end != std::string::npos && end + 3 == name.size() &&
                         name[end + 2] >= '0' && name[end + 2] <= '9';
    return version ? name.substr(0, end) : name;
}

}  // namespace

Counter& counter_of(const char* entry_point) {
    Table& all = table();
    const std::string name = public_name(entry_point);
    const std::lock_guard<std::mutex> hold(all.lock);
    std::unique_ptr<Counter>& slot = all.counters[name];
    if (!slot) {
        slot = std::make_unique<Counter>();
        slot->name = name;
    }
    return *slot;
}

CUresult count_call(Counter& counter) {
    counter.calls.fetch_add(1, std::memory_order_relaxed);
    uint64_t left = counter.fail_in.load(std::memory_order_relaxed);
    while (left != 0 && !counter.fail_in.compare_exchange_weak(left, left - 1)) {
    }
    return left == 1 ? static_cast<CUresult>(counter.fail_code.load()) : CUDA_SUCCESS;
}

}  // namespace lowgraph

using namespace lowgraph;

uint64_t lowgraph_host_calls(const char* name) { return counter_of(name).calls.load(); }

// Names of all calls made since the last reset, one a line; returns the bytes needed with the NUL.
size_t lowgraph_host_call_names(char* out, size_t size) {
    std::string text;
    {
        const std::lock_guard<std::mutex> hold(table().lock);
        for (const auto& [name, counter] : table().counters)
            if (counter->calls.load() != 0) text += name + '\n';
    }
    if (out != nullptr && size != 0) {
        const size_t count = std::min(size - 1, text.size());
        std::memcpy(out, text.data(), count);
        out[count] = '\0';
    }
    return text.size() + 1;
}

void lowgraph_host_reset_calls() {
    const std::lock_guard<std::mutex> hold(table().lock);
    for (const auto& [name, counter] : table().counters) counter->calls.store(0);
}

void lowgraph_host_fail(const char* name, uint64_t nth, int code) {
    Counter& counter = counter_of(name);
    counter.fail_code.store(code);
    counter.fail_in.store(nth);
}
