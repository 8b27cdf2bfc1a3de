#include "race_order.h"

#include <algorithm>
#include <unordered_set>

#include "exec.h"
#include "race_works.h"

namespace lowgraph {
namespace {

struct Orders {
    Before issued;  // of each stream
    Before host;    // what the host has seen to be done
    Before left;    // by blocking streams that are gone
    std::unordered_set<Stamp> unfinished;
};

Orders& orders() {
    static Orders* const instance = new Orders;
    return *instance;
}

void join(Before& before, const Before& other) {
    for (const auto& [stream, number] : other) {
        uint64_t& known = before[stream];
        known = std::max(known, number);
    }
}

void join(Before& before, const WorkStamp& stamp) {
    join(before, stamp.before);
    uint64_t& known = before[stamp.stream];
    known = std::max(known, stamp.number);
}

// What is before all that is still to run: not all that the host has seen, for a work may have been
// issued before it saw that. On a busy machine the reader of a race ended, and the host had waited
// for it, before the writer began.
Before before_all_to_come() {
    Before common = orders().host;
    for (const Stamp& stamp : orders().unfinished)
        for (auto& [stream, number] : common)
            if (stream != stamp->stream) number = std::min(number, number_in(stamp->before, stream));
    return common;
}

void set(std::vector<uint64_t>& bits, size_t place) {
    if (bits.size() <= place / 64) bits.resize(place / 64 + 1);
    bits[place / 64] |= uint64_t{1} << place % 64;
}

void join(std::vector<uint64_t>& bits, const std::vector<uint64_t>& other) {
    if (bits.size() < other.size()) bits.resize(other.size());
    for (size_t i = 0; i < other.size(); ++i) bits[i] |= other[i];
}

}  // namespace

Stamp race_issue(uint64_t stream) {
    auto stamp = std::make_shared<WorkStamp>();
    stamp->stream = stream;
    stamp->number = ++orders().issued[stream];
    stamp->before = orders().host;
    orders().unfinished.insert(stamp);
    return stamp;
}

void race_end(const Stamp& stamp) { orders().unfinished.erase(stamp); }

void race_follow(const Stamp& later, const Stamp& earlier) {
    if (later != nullptr && earlier != nullptr) join(later->before, *earlier);
}

void race_leave(const Stamp& last) {
    if (last != nullptr) join(orders().left, *last);
}

void race_follow_left(const Stamp& later) {
    if (later != nullptr) join(later->before, orders().left);
}

void race_host_saw(const Stamp& done) {
    if (done == nullptr) return;
    join(orders().host, *done);
    works().retire(before_all_to_come());
}

void race_host_saw(const Before& done) {
    join(orders().host, done);
    works().retire(before_all_to_come());
}

Before race_issued() { return orders().issued; }

void race_host_saw_all() {
    orders().host = orders().issued;
    orders().left.clear();
    works().retire(before_all_to_come());
}

void race_host_called() {
    const Stamp& stamp = running_work().stamp;
    if (stamp != nullptr) join(orders().host, stamp->before);
}

// A node is behind all that is in the graphs of the child nodes before it.
void NodeOrder::add(const ExecImage& image, const Bits& above, const std::string& prefix) {
    std::vector<std::pair<size_t, size_t>> ranges;  // of each node and what is in its graph
    for (const std::shared_ptr<const ExecNode>& node : image.nodes) {
        Bits bits = above;
        for (const uint32_t place : node->before) {
            join(bits, before_[ranges[place].first]);
            for (size_t i = ranges[place].first; i < ranges[place].second; ++i) set(bits, i);
        }
        const size_t own = before_.size();
        bits.resize(std::max(bits.size(), own / 64 + 1));
        before_.push_back(bits);
        titles_.push_back(prefix + std::to_string(node->id));
        if (node->child) add(*node->child, bits, titles_.back() + "/");
        ranges.push_back({own, before_.size()});
    }
}

RunningWork& running_work() {
    thread_local RunningWork running;
    return running;
}

void race_enter_graph(const ExecImage& image) {
    if (image.order == nullptr) image.order = std::make_shared<NodeOrder>(image);
    RunningWork& running = running_work();
    running.graph = image.order;
    running.node = ~size_t{0};
    running.bodies = 0;
}

void race_next_node() {
    RunningWork& running = running_work();
    if (running.bodies == 0) ++running.node;
}

}  // namespace lowgraph
