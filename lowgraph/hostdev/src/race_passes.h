// How often each warp has passed each warp operation since the block's last barrier: where the two
// wait for one another, it tells which of them some lanes have left out.
#pragma once
#include <cstdint>
#include <vector>

#include "block.h"

namespace lowgraph {

class Passes {
public:
    void forget() {
        for (std::vector<Row>& rows : of_warp_) rows.clear();
    }
    void note(uint32_t warp, const WaitSite& operation) {
        for (Row& row : of_warp_[warp]) {
            if (row.line != operation.line || row.file != operation.file) continue;
            ++row.count;
            return;
        }
        of_warp_[warp].push_back({operation.file, operation.line, 1});
    }
    uint32_t count(uint32_t warp, const WaitSite& operation) const {
        for (const Row& row : of_warp_[warp])
            if (row.line == operation.line && row.file == operation.file) return row.count;
        return 0;
    }

private:
    struct Row {
        const char* file;
        int line;
        uint32_t count;
    };
    std::vector<Row> of_warp_[Block::max_warps];
};

}  // namespace lowgraph
