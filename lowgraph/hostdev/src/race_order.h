// The order of works on the device: streams, event waits, the legacy stream's implicit order, paths
// in graphs, and what the host has waited for.
//
// It is what the calls that issued the work say, not what happened: a work that had ended before
// another one began is not before it unless something made it so. The host counts as one: what any
// of its threads has seen to be done is before all that is issued later. How the executor orders
// slices' changes of state (enqueue_barrier) is no order on a GPU, and none here.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace lowgraph {

struct ExecImage;

// Of each stream, by its id, the number of its last work that is before something.
using Before = std::unordered_map<uint64_t, uint64_t>;

inline uint64_t number_in(const Before& before, uint64_t stream) {
    const auto found = before.find(stream);
    return found == before.end() ? 0 : found->second;
}

// A work's place: the number'th that was issued to its stream.
struct WorkStamp {
    uint64_t stream = 0, number = 0;
    Before before;
};
using Stamp = std::shared_ptr<WorkStamp>;

// ---- All need big_lock, and are called while checking only ----
Stamp race_issue(uint64_t stream);
void race_end(const Stamp& stamp);  // the work was carried out, or never will be
void race_follow(const Stamp& later, const Stamp& earlier);  // null: issued before checking began
// A blocking stream is destroyed; later work of the legacy stream comes after its last work.
void race_leave(const Stamp& last);
void race_follow_left(const Stamp& later);
// The host knows that this work is done, or that all is.
void race_host_saw(const Stamp& done);
void race_host_saw(const Before& done);
void race_host_saw_all();
// Of each stream the number of its last work.
Before race_issued();
// A host function runs: whoever it tells may rely on what was before it.
void race_host_called();

// For each node of an image, in the order that run_image comes to them (child graphs' nodes after
// their own): the nodes that are before it, and its number in the order of creation ("2", "2/0" in
// the child graph of 2).
class NodeOrder {
public:
    explicit NodeOrder(const ExecImage& image) { add(image, {}, ""); }
    bool precedes(size_t earlier, size_t later) const {
        return before_[later][earlier / 64] >> earlier % 64 & 1;
    }
    const std::string& title(size_t node) const { return titles_[node]; }

private:
    using Bits = std::vector<uint64_t>;
    void add(const ExecImage& image, const Bits& above, const std::string& prefix);

    std::vector<Bits> before_;
    std::vector<std::string> titles_;
};

// What the calling thread carries out now.
struct RunningWork {
    Stamp stamp;                             // null: not known
    std::shared_ptr<const NodeOrder> graph;  // null: no graph
    size_t node = 0;                         // in the graph's order
    int bodies = 0;  // of conditional nodes that it is in: their nodes are not in the order
};
RunningWork& running_work();
// Before the nodes of a launched image, and before each of them.
void race_enter_graph(const ExecImage& image);
void race_next_node();
// While it lives, what runs is the conditional node's: a body has no place in the order.
struct RaceInBody {
    RaceInBody() { ++running_work().bodies; }
    ~RaceInBody() { --running_work().bodies; }
};

}  // namespace lowgraph
