// Places in kernels' code by number, so that a Mark holds one in few bits.
#pragma once
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "race_shadow.h"

namespace lowgraph {

class Sites {
public:
    // Of a pc. The last number stands for all that are too many.
    uint32_t number_of(uint64_t pc) {
        const Near& near = near_[slot_of(pc)];
        return near.pc == pc ? near.number : find(pc);
    }
    uint64_t pc(uint32_t number) const { return pcs_[number]; }
    // The atomic there has the scope of its block.
    void set_of_block(uint32_t number) { of_block_.insert(number); }
    bool is_of_block(uint32_t number) const {
        return !of_block_.empty() && of_block_.contains(number);
    }

private:
    static constexpr size_t slots = 4096;
    static size_t slot_of(uint64_t pc) { return pc * 0x9E3779B97F4A7C15u >> 52; }

    struct Near {
        uint64_t pc = 0;
        uint32_t number = 0;
    };

    uint32_t find(uint64_t pc) {
        const auto [spot, is_new] = numbers_.try_emplace(pc, static_cast<uint32_t>(pcs_.size()));
        if (is_new && pcs_.size() < max_sites) pcs_.push_back(pc);
        const uint32_t number = spot->second < max_sites ? spot->second : max_sites - 1;
        near_[slot_of(pc)] = {pc, number};
        return number;
    }

    Near near_[slots];
    std::unordered_map<uint64_t, uint32_t> numbers_;
    std::vector<uint64_t> pcs_ = {0};
    std::unordered_set<uint32_t> of_block_;
};

inline Sites& sites() {
    static Sites& instance = *new Sites;
    return instance;
}

}  // namespace lowgraph
