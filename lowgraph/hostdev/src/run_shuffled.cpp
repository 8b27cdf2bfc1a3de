// Shuffle mode inside a graph launch: its nodes run in some order that the edges allow.
#include "exec.h"
#include "shuffle.h"

namespace lowgraph {
namespace {

// A run through an image, one node a step. The nodes of a child graph come between those of the
// branches beside it, as they may on a GPU.
class Walk {
public:
    explicit Walk(const ExecImage& image);
    bool over() const { return open_.empty(); }
    CUresult step();

private:
    struct Open {  // a node whose turn it may be
        uint32_t place;
        std::unique_ptr<Walk> child;  // under way, or null
    };
    void close(size_t position);

    const ExecImage& image_;
    std::vector<size_t> missing_;  // unfinished nodes before each
    std::vector<std::vector<uint32_t>> after_;
    std::vector<Open> open_;
};

Walk::Walk(const ExecImage& image)
    : image_(image), missing_(image.nodes.size()), after_(image.nodes.size()) {
    for (uint32_t place = 0; place < image.nodes.size(); ++place) {
        const ExecNode& node = *image.nodes[place];
        missing_[place] = node.before.size();
        for (const uint32_t before : node.before) after_[before].push_back(place);
        if (node.before.empty()) open_.push_back({place, nullptr});
    }
}

CUresult Walk::step() {
    const size_t position = op_dice().below(static_cast<uint32_t>(open_.size()));
    Open& chosen = open_[position];
    const ExecNode& node = *image_.nodes[chosen.place];
    CUresult code = CUDA_SUCCESS;
    if (node.child && node.enabled) {
        if (!chosen.child) chosen.child = std::make_unique<Walk>(*node.child);
        if (!chosen.child->over()) code = chosen.child->step();
        if (!chosen.child->over()) return code;
    } else {
        code = run_node(node);
    }
    close(position);
    return code;
}

void Walk::close(size_t position) {
    const uint32_t place = open_[position].place;
    open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(position));
    for (const uint32_t after : after_[place])
        if (--missing_[after] == 0) open_.push_back({after, nullptr});
}

}  // namespace

CUresult run_shuffled(const ExecImage& image) {
    for (Walk walk(image); !walk.over();) {
        const CUresult code = walk.step();
        if (code != CUDA_SUCCESS) return code;
    }
    return CUDA_SUCCESS;
}

}  // namespace lowgraph
