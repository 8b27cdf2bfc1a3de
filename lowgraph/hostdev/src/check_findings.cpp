#include "check_findings.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <set>
#include <tuple>

#include "block.h"
#include "control.h"
#include "images.h"
#include "json_text.h"
#include "memory_tables.h"

namespace lowgraph {
namespace {

constexpr size_t most_kept = 10000;  // different places

struct Finding {
    const char* kind;
    Site where, other;
    bool has_other = false;
    std::string allocation, text;
    uint64_t count = 1;
};

// kind, kernel, pc or line, the other side's pc or line; `unplaced`
using Key = std::tuple<const char*, const KernelEntry*, uint64_t, uint64_t, std::string>;

struct Findings {
    std::mutex lock;
    std::deque<Finding> list;
    std::map<Key, Finding*> known;
    std::map<std::tuple<const char*, const KernelEntry*, uint64_t>, Finding*> by_place;
    uint64_t seen = 0;
    bool read = false;  // somebody has asked for the list
};

Findings& findings() {
    static auto* const instance = new Findings;
    return *instance;
}

uint64_t place_key(const Site& site) {
    return site.pc != 0 ? site.pc : static_cast<uint64_t>(site.line);
}

// What tells sides without a place apart, a memset's from a copy's: else all of a run were one.
std::string unplaced(const Site& where, const Site& other, const std::string& allocation) {
    std::string text;
    for (const Site* site : {&where, &other})
        if (place_key(*site) == 0 && site->what != nullptr) (text += site->what) += ' ';
    return text.empty() ? text : text + allocation;
}

std::string title_of(const Region& region) {
    const auto& slices = tables().slices;
    const auto slice = slices.find(region.address);
    if (slice != slices.end()) return slice->second.name;
    if (!region.name.empty()) return region.name;
    return "allocation of " + std::to_string(region.bytes) + " bytes";
}

// The name that people gave to what the address is in, before or behind; or its size.
std::string allocation_name(uint64_t address) {
    if (address == 0) return "";
    const TableLock hold(tables().lock);
    const auto& slices = tables().slices;
    const auto& regions = tables().regions;
    const auto slice = slices.upper_bound(address);
    const auto next = regions.upper_bound(address);
    const Region* before = next == regions.begin() ? nullptr : &std::prev(next)->second;
    const uint64_t past = before != nullptr ? address - before->address : UINT64_MAX;
    const bool near = before != nullptr && past < before->bytes + alignment + page_bytes;
    if (near && slice != slices.begin()) {
        const Slice& found = std::prev(slice)->second;
        const bool last = found.end + alignment > before->address + before->bytes;
        const bool inside = found.address >= before->address;
        if (inside && (address < found.end || (past >= before->bytes && last))) return found.name;
    }
    if (near) return title_of(*before);
    const bool ahead = next != regions.end() && next->first - address <= page_bytes;
    return ahead ? title_of(next->second) : "";
}

void add(const char* kind, const Site& where, const Site* other, const std::string& allocation,
         const std::string& text) {
    Findings& all = findings();
    const std::lock_guard<std::mutex> hold(all.lock);
    ++all.seen;
    const uint64_t place = place_key(where);
    const Site& beside = other != nullptr ? *other : where;
    const Key key{kind, where.kernel, place, other != nullptr ? place_key(*other) : 0,
                  unplaced(where, beside, allocation)};
    const auto known = all.known.find(key);
    if (known != all.known.end()) {
        ++known->second->count;
        return;
    }
    if (all.list.size() == most_kept) return;
    Finding finding{kind, where, {}, other != nullptr, allocation, text};
    if (other != nullptr) finding.other = *other;
    all.list.push_back(std::move(finding));
    all.known[key] = &all.list.back();
    all.by_place[{kind, where.kernel, place}] = &all.list.back();
}

// ---- JSON ----

std::string triple(const uint32_t (&index)[3]) {
    return "[" + std::to_string(index[0]) + ", " + std::to_string(index[1]) + ", " +
           std::to_string(index[2]) + "]";
}

std::string site_fields(const Site& site) {
    SourceLine line;
    if (site.file != nullptr) line = {site.file, site.line};
    else if (site.pc != 0) line = source_line(site.pc - 1);  // the pc is behind the access's call
    const char* title = site.kernel != nullptr ? site.kernel->name : site.what;
    return "\"kernel\": " + (title != nullptr ? quoted(title) : "null") +
           ", \"file\": " + (line.file.empty() ? "null" : quoted(line.file)) +
           ", \"line\": " + (line.file.empty() ? "null" : std::to_string(line.line)) +
           ", \"block\": " + (site.kernel != nullptr ? triple(site.block) : "null") +
           ", \"thread\": " + (site.kernel != nullptr ? triple(site.thread) : "null");
}

std::string json(const Finding& finding) {
    return std::string("{\"kind\": ") + quoted(finding.kind) + ", " + site_fields(finding.where) +
           ", \"other\": " + (finding.has_other ? "{" + site_fields(finding.other) + "}" : "null") +
           ", \"allocation\": " +
           quoted_or_null(finding.allocation) +
           ", \"text\": " + quoted(finding.text) + ", \"count\": " + std::to_string(finding.count) +
           "}\n";
}

}  // namespace

Site here(uint64_t pc) {
    Site site;
    site.kernel = lowgraph_thread.runner->job->launch->kernel;
    const Index &block = lowgraph_thread.block, &thread = lowgraph_thread.thread;
    const uint32_t at[6] = {block.x, block.y, block.z, thread.x, thread.y, thread.z};
    std::copy(at, at + 3, site.block);
    std::copy(at + 3, at + 6, site.thread);
    site.pc = pc;
    return site;
}

Site here(const char* file, int line) {
    Site site = here(0);
    site.file = file;
    site.line = line;
    return site;
}

bool count_again(const char* kind, const KernelEntry* kernel, uint64_t pc) {
    Findings& all = findings();
    const std::lock_guard<std::mutex> hold(all.lock);
    const auto known = all.by_place.find({kind, kernel, pc});
    if (known == all.by_place.end()) return false;
    ++known->second->count;
    ++all.seen;
    return true;
}

void report(const char* kind, const Site& where, const Site* other, uint64_t address,
            const std::string& text) {
    add(kind, where, other, allocation_name(address), text);
}

void report_named(const char* kind, const Site& where, const std::string& name,
                  const std::string& text, const Site* other) {
    add(kind, where, other, name, text);
}

uint64_t findings_so_far() {
    const std::lock_guard<std::mutex> hold(findings().lock);
    return findings().seen;
}

bool findings_were_read() {
    const std::lock_guard<std::mutex> hold(findings().lock);
    return findings().read;
}

}  // namespace lowgraph

using namespace lowgraph;

size_t lowgraph_host_findings(char* out, size_t size) {
    std::string text;
    {
        const std::lock_guard<std::mutex> hold(findings().lock);
        for (const Finding& finding : findings().list) text += json(finding);
        findings().read = true;
    }
    return give_text(text, out, size);
}

void lowgraph_host_forget_findings() {
    Findings& all = findings();
    const std::lock_guard<std::mutex> hold(all.lock);
    all.known.clear();
    all.by_place.clear();
    all.list.clear();
}
