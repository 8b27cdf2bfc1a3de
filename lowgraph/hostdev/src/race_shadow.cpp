#include "race_shadow.h"

namespace lowgraph {

void Page::refine(unsigned smaller) {
    const size_t count = bytes >> smaller;
    std::unique_ptr<Cell, Free> finer(make_cells(count));
    for (size_t i = 0; i < count; ++i) finer.get()[i] = cells.get()[i >> (shift - smaller)];
    cells = std::move(finer);
    shift = smaller;
}

Page* Shadow::find(uint64_t number) {
    std::unique_ptr<Page>& slot = pages_[number];
    if (slot == nullptr) slot = std::make_unique<Page>(number);
    return slot.get();
}

void Shadow::begin_launch() {
    touched_.clear();
    if (pages_.size() > most_pages) forget();
}

void Shadow::forget() {
    touched_.clear();
    for (Page*& near : near_) near = nullptr;
    pages_.clear();
}

}  // namespace lowgraph
