// Order made through atomics: a fence and then an atomic release what was done before; an atomic at
// the same place acquires it. Without the fence nothing is handed on, which is the bug to be found.
//
// More is granted here than the memory model does: the acquiring side needs no fence of its own, an
// atomic hands on what all earlier ones at its place released, and what was acquired is handed on
// without another fence. A block that acquires too much to keep counts as having acquired all.
#pragma once
#include <unordered_map>

#include "race_threads.h"

namespace lowgraph {

class SyncLog {
public:
    explicit SyncLog(const ThreadOrder& order) : order_(order) {}

    void begin_launch();
    void begin_block();
    void barrier();
    void acquire(uint64_t address, uint32_t thread);
    void release(uint64_t address, uint32_t thread);
    // Whether the thread comes after the access by what it or its block has acquired.
    bool follows(uint32_t thread, Mark mark) const;

private:
    struct Release {
        uint32_t block;  // its start
        bool device;     // else only to the same block
        Part own;
        SharedPart common;

        bool operator==(const Release&) const = default;
        bool covers(Mark mark) const {
            return own.covers(mark) || (common && common->covers(mark));
        }
    };
    // The releases at one address, oldest first, and what the releasing threads had acquired: how
    // many releases of which other place.
    struct Place {
        std::vector<Release> releases;
        std::unordered_map<uint32_t, size_t> behind;
        bool behind_all = false;
    };
    // A thread of the running block has acquired the first `count` releases of a place, and was the
    // first time there at the time of `by`.
    struct Held {
        uint32_t place;
        size_t count;
        Mark by;
    };
    static constexpr size_t most_held = 4096;  // each release and each doubtful access looks at all

    bool holds(uint32_t thread, const Held& held) const { return order_.follows(thread, held.by); }
    void release(uint32_t place, uint32_t thread, bool device);
    bool handed_on(const Place& place, size_t count, Mark mark) const;

    const ThreadOrder& order_;
    std::unordered_map<uint64_t, uint32_t> numbers_;  // of places, by address
    std::vector<Place> places_;
    std::vector<Held> held_;
    std::unordered_map<uint64_t, size_t> held_at_;  // in held_, by place and thread
    bool holds_all_ = false;
};

}  // namespace lowgraph
