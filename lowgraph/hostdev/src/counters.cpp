#include "counters.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

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

// Calls by thread, kept only while somebody wants them: a launch should not pay for it.
struct Made {
    uint64_t calls = 0;
    bool marked = false;
};
struct Tally {
    std::mutex lock;
    int wanted = 0;  // nested
    lowgraph_thread_mark mark = nullptr;
    std::map<std::pair<long, const Counter*>, Made> made;
};
std::atomic<bool> tallying{false};

Tally& tally() {  // leaked as the table is
    static Tally* const instance = new Tally;
    return *instance;
}

void note_thread(const Counter& counter) {
    const std::lock_guard<std::mutex> hold(tally().lock);
    Made& made = tally().made[{syscall(SYS_gettid), &counter}];
    ++made.calls;
    // Asked now: the thread may have ended when somebody wants to know.
    made.marked = tally().mark != nullptr && tally().mark() != nullptr;
}

size_t copy_text(const std::string& text, char* out, size_t size) {
    if (out != nullptr && size != 0) {
        const size_t count = std::min(size - 1, text.size());
        std::memcpy(out, text.data(), count);
        out[count] = '\0';
    }
    return text.size() + 1;
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
    if (tallying.load(std::memory_order_relaxed)) note_thread(counter);
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
    return copy_text(text, out, size);
}

void lowgraph_host_tally(int on, lowgraph_thread_mark mark) {
    const std::lock_guard<std::mutex> hold(tally().lock);
    tally().wanted += on ? 1 : -1;
    if (on) tally().mark = mark;
    tallying = tally().wanted != 0;
    if (!tallying) tally().made.clear();
}

// "THREAD MARK NAME CALLS" a line, of the calls since the outermost tally began.
size_t lowgraph_host_tallied(char* out, size_t size) {
    std::string text;
    {
        const std::lock_guard<std::mutex> hold(tally().lock);
        for (const auto& [whose, made] : tally().made)
            text += std::to_string(whose.first) + (made.marked ? " 1 " : " 0 ") +
                    whose.second->name + ' ' + std::to_string(made.calls) + '\n';
    }
    return copy_text(text, out, size);
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
