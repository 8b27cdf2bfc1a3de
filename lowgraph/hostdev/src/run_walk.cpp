// A graph launch whose nodes run in some order that the edges allow: in shuffle mode one that dice
// choose; for a graph with memory operations one in which a wait lets the branches beside it go first.
#include "exec.h"
#include "shuffle.h"
#include "words.h"

namespace lowgraph {
namespace {

// A run through an image, one node a step. The nodes of a child graph come between those of the
// branches beside it, as they may on a GPU.
class Walk {
public:
    explicit Walk(const ExecImage& image);
    bool over() const { return open_.empty(); }
    bool can_move() const { return !movable().empty(); }  // else every open node waits for a word
    CUresult step();
    CUresult overdue() const;  // says so of one of those that wait

private:
    struct Open {  // a node whose turn it may be
        uint32_t place;
        std::unique_ptr<Walk> child;  // under way, or null
        size_t operations = 0;        // of a memory operations' node: those that are done
    };
    bool can_move(const Open& open) const;
    std::vector<size_t> movable() const;  // positions in open_
    CUresult run(const ExecNode& node, Open& open, bool* done);
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
        if (node.before.empty()) open_.push_back({place, nullptr, 0});
    }
}

bool Walk::can_move(const Open& open) const {
    const ExecNode& node = *image_.nodes[open.place];
    if (open.child) return open.child->over() || open.child->can_move();
    const auto* const words = std::get_if<WordsWork>(&node.work);
    return words == nullptr || can_go_on(*words, open.operations);
}

std::vector<size_t> Walk::movable() const {
    std::vector<size_t> found;
    for (size_t position = 0; position < open_.size(); ++position)
        if (!image_.holds_words || can_move(open_[position])) found.push_back(position);
    return found;
}

CUresult Walk::run(const ExecNode& node, Open& open, bool* done) {
    CUresult code = CUDA_SUCCESS;
    if (node.child && node.enabled) {
        if (!open.child) open.child = std::make_unique<Walk>(*node.child);
        if (!open.child->over() && open.child->can_move()) code = open.child->step();
        *done = open.child->over();
    } else if (const auto* const words = std::get_if<WordsWork>(&node.work)) {
        code = run_some(*words, &open.operations);
        *done = open.operations == words->operations.size();
    } else {
        code = run_node(node);
    }
    return code;
}

// A word that was there may be gone when its node's turn comes: then the step was none.
CUresult Walk::step() {
    const std::vector<size_t> choice = movable();
    if (choice.empty()) return CUDA_SUCCESS;
    const auto count = static_cast<uint32_t>(choice.size());
    const size_t position = choice[shuffling() ? op_dice().below(count) : 0];
    Open& chosen = open_[position];
    bool done = true;
    const CUresult code = run(*image_.nodes[chosen.place], chosen, &done);
    if (done) close(position);
    return code;
}

CUresult Walk::overdue() const {
    for (const Open& open : open_) {
        if (open.child && !open.child->over()) return open.child->overdue();
        const auto* const words = std::get_if<WordsWork>(&image_.nodes[open.place]->work);
        if (words != nullptr) return end_wait(*words, open.operations, &image_, open.place);
    }
    return CUDA_ERROR_UNKNOWN;  // never: what cannot go on waits for a word
}

void Walk::close(size_t position) {
    const uint32_t place = open_[position].place;
    open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(position));
    for (const uint32_t after : after_[place])
        if (--missing_[after] == 0) open_.push_back({after, nullptr, 0});
}

}  // namespace

CUresult run_walk(const ExecImage& image) {
    for (Walk walk(image); !walk.over();) {
        const Waited waited = image.holds_words
                                  ? wait_for_others([&walk] { return walk.can_move(); })
                                  : Waited::there;
        if (waited == Waited::broke) return CUDA_ERROR_UNKNOWN;  // what broke is told
        const CUresult code = waited == Waited::there ? walk.step() : walk.overdue();
        if (code != CUDA_SUCCESS) return code;
    }
    return CUDA_SUCCESS;
}

}  // namespace lowgraph
