#include "check_heap.h"

#include <cstdlib>
#include <map>

#include "check_findings.h"
#include "check_launch.h"
#include "race.h"

namespace lowgraph {
namespace {

constexpr uint64_t zone = 256;  // bytes behind each piece that belong to nobody

struct Piece {
    uint64_t bytes;
    bool live;
};

// By address. One launch runs at a time, on one OS thread: no lock.
std::map<uint64_t, Piece>& pieces() {
    static auto* const instance = new std::map<uint64_t, Piece>;
    return *instance;
}

std::map<uint64_t, Piece>::iterator piece_at(uint64_t address) {
    const auto after = pieces().upper_bound(address);
    if (after == pieces().begin()) return pieces().end();
    const auto found = std::prev(after);
    return address < found->first + found->second.bytes + zone ? found : pieces().end();
}

std::string title(const Piece& piece) {
    return std::string(heap_name) + " (" + std::to_string(piece.bytes) + " bytes)";
}

}  // namespace

bool is_in_heap(uint64_t address) { return piece_at(address) != pieces().end(); }

bool heap_place(const Access& access, Place* place, Wrong* wrong) {
    const auto& [start, piece] = *piece_at(access.address);
    const uint64_t end = start + piece.bytes, stop = access.address + access.bytes;
    if (piece.live && stop <= end) {
        *place = {start, end, {}, true, Space::global};
        return true;
    }
    wrong->kind = piece.live ? kind::out_of_bounds : kind::use_after_free;
    wrong->text = piece.live ? "past the end of " + title(piece) : "of " + title(piece) + " and freed";
    wrong->name = heap_name;
    wrong->fatal = stop > end + zone;
    return false;
}

void renew_heap() {
    std::erase_if(pieces(), [](const auto& entry) {
        if (entry.second.live) return false;
        std::free(reinterpret_cast<void*>(entry.first));
        return true;
    });
}

}  // namespace lowgraph

using namespace lowgraph;

extern "C" {

void* lowgraph_check_allocate(uint64_t bytes) {
    void* const memory = std::malloc(bytes + zone);
    if (memory == nullptr) return nullptr;
    const auto address = reinterpret_cast<uint64_t>(memory);
    race_unused(address, address + bytes);
    pieces()[address] = {bytes, true};
    forget_places();
    return memory;
}

void lowgraph_check_free(void* memory, const void* pc) {
    if (memory == nullptr) return;
    const auto found = pieces().find(reinterpret_cast<uint64_t>(memory));
    if (found != pieces().end() && found->second.live) {
        found->second.live = false;
        forget_places();
        return;
    }
    const bool is_known = found != pieces().end();
    const Site where = here(reinterpret_cast<uint64_t>(pc));
    report_named(kind::use_after_free, where, is_known ? heap_name : "",
                 is_known ? "frees " + title(found->second) + " a second time"
                          : std::string("frees what no kernel has allocated"));
}

}  // extern "C"
