#include "check_findings.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <set>
#include <tuple>

#include "block.h"
#include "check_places.h"
#include "control.h"
#include "images.h"
#include "json_text.h"

namespace lowgraph {
namespace {

constexpr size_t most_kept = 10000;  // different places

struct Finding {
    const char* kind;
    Site where, other;
    bool has_other = false;
    std::string memory, text;
    uint64_t address;
    uint64_t count = 1;
};

// kind, kernel, pc or line, access, memory
using PlaceKey = std::tuple<const char*, const KernelEntry*, uint64_t, const char*, std::string>;
// ... and the other side's pc or line; `unplaced`
using Key = std::tuple<PlaceKey, uint64_t, std::string>;

struct Findings {
    std::mutex lock;
    std::deque<Finding> list;
    std::map<Key, Finding*> known;
    std::map<PlaceKey, Finding*> by_place;
    std::set<PlaceKey> joined;     // writes that are told with the read before them
    Finding* last_read = nullptr;  // the newest finding, if it is of a read
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

// Races of reads and writes of one place are one bug: they have no access in their key.
PlaceKey place_of(const char* kind, const Site& where, bool has_other, const std::string& memory) {
    return {kind, where.kernel, place_key(where), has_other ? nullptr : where.access, memory};
}

// What tells sides without a place apart, a memset's from a copy's: else all of a run were one.
std::string unplaced(const Site& where, const Site& other) {
    std::string text;
    for (const Site* site : {&where, &other})
        if (place_key(*site) == 0 && site->what != nullptr) (text += site->what) += ' ';
    return text;
}

SourceLine line_of(const Site& site) {
    if (site.file != nullptr) return {site.file, site.line};
    if (site.pc != 0) return source_line(site.pc - 1);  // the pc is behind the access's call
    return {};
}

bool same_thread(const Site& a, const Site& b) {
    return std::ranges::equal(a.block, b.block) && std::ranges::equal(a.thread, b.thread);
}

// `y[i] += 1` reads and writes: one bug, which is told as both.
bool joins_read(Findings& all, const Finding& write) {
    Finding* const read = all.last_read;
    if (read == nullptr || write.has_other || write.where.access != access::write) return false;
    if (read->kind != write.kind || read->where.kernel != write.where.kernel) return false;
    if (write.address == 0 || read->address != write.address || read->memory != write.memory)
        return false;
    const SourceLine one = line_of(read->where), other = line_of(write.where);
    if (!same_thread(read->where, write.where) || one.line != other.line || one.file != other.file)
        return false;
    const size_t verb = read->text.find(access::read);
    if (verb != std::string::npos)
        read->text.replace(verb, std::strlen(access::read), access::both);
    read->where.access = access::both;
    return true;
}

// ---- JSON ----

std::string triple(const uint32_t (&index)[3]) {
    return "[" + std::to_string(index[0]) + ", " + std::to_string(index[1]) + ", " +
           std::to_string(index[2]) + "]";
}

std::string site_fields(const Site& site) {
    const SourceLine line = line_of(site);
    const char* title = site.kernel != nullptr ? site.kernel->name : site.what;
    return "\"kernel\": " + (title != nullptr ? quoted(title) : "null") +
           ", \"file\": " + (line.file.empty() ? "null" : quoted(line.file)) +
           ", \"line\": " + (line.file.empty() ? "null" : std::to_string(line.line)) +
           ", \"block\": " + (site.kernel != nullptr ? triple(site.block) : "null") +
           ", \"thread\": " + (site.kernel != nullptr ? triple(site.thread) : "null") +
           ", \"access\": " + (site.access != nullptr ? quoted(site.access) : "null") +
           ", \"work\": " + (site.work.empty() ? "null" : quoted(site.work));
}

std::string json(const Finding& finding) {
    return std::string("{\"kind\": ") + quoted(finding.kind) + ", " + site_fields(finding.where) +
           ", \"other\": " + (finding.has_other ? "{" + site_fields(finding.other) + "}" : "null") +
           ", \"allocation\": " +
           quoted_or_null(finding.memory) +
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

const char* verb(const Access& access) {
    if (access.atomic) return access.write ? access::update : access::atomic_read;
    return access.write ? access::write : access::read;
}

bool count_again(const char* kind, const Site& where, const std::string& memory) {
    Findings& all = findings();
    const std::lock_guard<std::mutex> hold(all.lock);
    const PlaceKey place = place_of(kind, where, false, memory);
    ++all.seen;
    if (all.joined.contains(place)) return true;
    const auto known = all.by_place.find(place);
    if (known != all.by_place.end()) ++known->second->count;
    else --all.seen;
    return known != all.by_place.end();
}

void report(const char* kind, const Site& where, const Site* other, uint64_t address,
            const std::string& text) {
    report_named(kind, where, memory_name(address), text, other, address);
}

void report_named(const char* kind, const Site& where, const std::string& memory,
                  const std::string& text, const Site* other, uint64_t address) {
    Findings& all = findings();
    const std::lock_guard<std::mutex> hold(all.lock);
    ++all.seen;
    const PlaceKey place = place_of(kind, where, other != nullptr, memory);
    const Site& beside = other != nullptr ? *other : where;
    const Key key{place, other != nullptr ? place_key(*other) : 0, unplaced(where, beside)};
    if (all.joined.contains(place)) return;
    if (const auto known = all.known.find(key); known != all.known.end()) {
        ++known->second->count;
        return;
    }
    Finding finding{kind, where, {}, other != nullptr, memory, text, address};
    if (other != nullptr) finding.other = *other;
    if (joins_read(all, finding)) {
        all.joined.insert(place);
        return;
    }
    if (all.list.size() == most_kept) return;
    all.list.push_back(std::move(finding));
    all.known[key] = &all.list.back();
    all.by_place[place] = &all.list.back();
    all.last_read = where.access == access::read ? &all.list.back() : nullptr;
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
    all.joined.clear();
    all.last_read = nullptr;
    all.list.clear();
}
