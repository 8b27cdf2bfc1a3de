// Pairing as the driver manual describes it for cuGraphExecUpdate: exit nodes in the order in which
// they became exits (anew when what came after is taken away), then, from each pair, the dependencies
// in the order of their edges. What may change between two paired nodes are recorded rows.
#include "update.h"

#include <algorithm>
#include <deque>

#include "conditional.h"
#include "edge_data.h"
#include "memory.h"
#include "module.h"
#include "words.h"

namespace lowgraph {
namespace {

constexpr uint32_t unpaired = UINT32_MAX;

std::vector<uint32_t> exits_of(const ExecImage& image) {
    std::vector<bool> leads_on(image.nodes.size(), false);
    for (const auto& node : image.nodes)
        for (const uint32_t before : node->before) leads_on[before] = true;
    std::vector<uint32_t> exits;
    for (uint32_t place = 0; place < image.nodes.size(); ++place)
        if (!leads_on[place]) exits.push_back(place);
    std::sort(exits.begin(), exits.end(), [&image](uint32_t a, uint32_t b) {
        return image.nodes[a]->exit_since < image.nodes[b]->exit_since;
    });
    return exits;
}

std::vector<const Node*> exits_of(const Graph& graph) {
    std::vector<const Node*> exits;
    for (const Node& node : graph.nodes)
        if (node.after.empty()) exits.push_back(&node);
    std::sort(exits.begin(), exits.end(),
              [](const Node* a, const Node* b) { return a->exit_since < b->exit_since; });
    return exits;
}

// Gives each node of a graph its twin in an image.
class Pairing {
public:
    Pairing(const ExecImage& image, const Graph& graph) : image_(image), taken_(image.nodes.size()) {
        outcome_ = pair_all(graph);
    }
    const UpdateOutcome& outcome() const { return outcome_; }
    uint32_t place_of(const Node& node) const { return places_.at(&node); }

private:
    static UpdateOutcome differs(const Node* node, const Node* from = nullptr) {
        return {CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, node, from};
    }

    UpdateOutcome pair_all(const Graph& graph) {
        if (graph.nodes.size() != image_.nodes.size()) return differs(nullptr);
        const std::vector<uint32_t> exits = exits_of(image_);
        const std::vector<const Node*> new_exits = exits_of(graph);
        if (new_exits.size() < exits.size()) return differs(nullptr);
        const size_t extra = new_exits.size() - exits.size();
        if (extra != 0) return differs(new_exits[extra - 1]);
        for (size_t i = exits.size(); i-- > 0;) pair(*new_exits[i], exits[i]);
        while (!open_.empty()) {
            const Node* const node = open_.front();
            open_.pop_front();
            const UpdateOutcome outcome = pair_dependencies(*node);
            if (outcome.result != CU_GRAPH_EXEC_UPDATE_SUCCESS) return outcome;
        }
        // An exit of the executable has become an inner node, or has gone.
        if (places_.size() != image_.nodes.size()) return differs(new_exits.back());
        return {};
    }

    UpdateOutcome pair_dependencies(const Node& node) {
        const ExecNode& twin = *image_.nodes[places_.at(&node)];
        const std::vector<uint32_t>& twins = twin.before;
        if (twins.size() != node.before.size()) return differs(&node);
        for (size_t i = 0; i < twins.size(); ++i) {
            const Node* const before = node.before[i];
            const auto known = places_.find(before);
            const bool fits = known == places_.end() ? !taken_[twins[i]] : known->second == twins[i];
            const bool alike = is_same(data_of(twin.data, twins[i]), data_of(node.data, before));
            if (!fits || !alike) return differs(&node, before);
            if (known == places_.end()) pair(*before, twins[i]);
        }
        return {};
    }

    void pair(const Node& node, uint32_t place) {
        places_[&node] = place;
        taken_[place] = true;
        open_.push_back(&node);
    }

    const ExecImage& image_;
    std::vector<bool> taken_;
    std::unordered_map<const Node*, uint32_t> places_;
    std::deque<const Node*> open_;
    UpdateOutcome outcome_;
};

using Result = CUgraphExecUpdateResult;
constexpr Result fits = CU_GRAPH_EXEC_UPDATE_SUCCESS;
constexpr Result parameters = CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;

Result compare(const KernelWork& now, const KernelWork& next) {
    if (!share_context(home_of(now), home_of(next)))
        return CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE;
    return now.cooperative == next.cooperative ? fits : CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED;
}

// Of its source, else of its target; null: neither has one.
const Context* home_of(const CopyWork& copy) {
    const Context* const owner = owner_of(copy.src);
    return owner != nullptr ? owner : owner_of(copy.dst);
}

// Of its memory, else the call's.
const Context* home_of(const FillWork& fill) {
    const Context* const owner = owner_of(fill.dst);
    return owner != nullptr ? owner : fill.context;
}

// What the calls told of the sides stays: by addresses alone the direction may change, and the kind of
// memory, but not between mapped memory and all other.
bool share_direction(const CopyWork& now, const CopyWork& next) {
    const bool told = now.dst_told == next.dst_told && now.src_told == next.src_told;
    return told && is_mapped(now.dst) == is_mapped(next.dst) && is_mapped(now.src) == is_mapped(next.src);
}

// The context is fixed (without one, the node is of its call's); the shape is too, unless both copies are
// one row.
Result compare(const CopyWork& now, const CopyWork& next) {
    const Context* const home = home_of(now);
    if (!share_context(home != nullptr ? home : now.context, home_of(next))) return parameters;
    if (!share_direction(now, next)) return parameters;
    const bool rows = now.height != 1 || now.depth != 1 || next.height != 1 || next.depth != 1;
    const bool same = now.width == next.width && now.height == next.height && now.depth == next.depth &&
                      now.dst_pitch == next.dst_pitch && now.src_pitch == next.src_pitch;
    return rows && !same ? parameters : fits;
}

Result compare(const FillWork& now, const FillWork& next) {
    if (!share_context(home_of(now), home_of(next))) return parameters;
    const bool rows = now.height != 1 || next.height != 1;
    const bool same = now.width == next.width && now.height == next.height && now.element == next.element &&
                      now.pitch == next.pitch;
    return rows && !same ? parameters : fits;
}

// The new graph's address takes the place of the old one's. Another size was not recorded.
Result compare(const AllocWork& now, const AllocWork& next) {
    return now.bytes == next.bytes ? fits : parameters;
}

// The handle is another one in every graph; context, type and size stay. The bodies are compared node by node.
Result compare(const ConditionalWork& now, const ConditionalWork& next) {
    const bool same = now.context == next.context && now.type == next.type &&
                      now.images.size() == next.bodies->graphs.size();
    return same ? fits : CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED;
}

// The values and addresses change, not how many there are of which kind.
Result compare(const WordsWork& now, const WordsWork& next) {
    return have_same_kinds(now, next) ? fits : parameters;
}

template <typename Kind>
Result compare(const Kind&, const Kind&) {
    return fits;  // empty, host, event, free and child graph nodes take any parameters
}

// The cluster size of a kernel stays what it was at instantiation, although the update succeeds.
void keep_cluster(const Work& now, Work& next) {
    if (auto* kernel = std::get_if<KernelWork>(&next)) kernel->cluster = std::get<KernelWork>(now).cluster;
}

// As it was set: beyond the range, others than the one it stands for.
int priority_of(const Work& work) {
    const auto* const kernel = std::get_if<KernelWork>(&work);
    return kernel == nullptr ? 0 : kernel->priority;
}

struct NewImage {
    std::shared_ptr<ExecImage> image;
    UpdateOutcome outcome;
};

NewImage updated(const ExecImage& image, const Graph& graph);

// Gives the new work the bodies that run: the old ones' images with what the new graphs hold.
UpdateOutcome update_bodies(const ConditionalWork& now, ConditionalWork& next) {
    for (size_t i = 0; i < now.images.size(); ++i) {
        NewImage inner = updated(*now.images[i], *next.bodies->graphs[i]);
        if (inner.outcome.result != fits) return inner.outcome;
        inner.image->user_objects = next.bodies->graphs[i]->user_objects;
        next.images.push_back(std::move(inner.image));
    }
    next.bodies.reset();
    return {};
}

NewImage updated(const ExecImage& image, const Graph& graph) {
    const Pairing pairing(image, graph);
    NewImage made{std::make_shared<ExecImage>(image), pairing.outcome()};
    if (made.outcome.result != fits) return made;
    // The newest node first, which is the one told of where several differ.
    for (auto spot = graph.nodes.rbegin(); spot != graph.nodes.rend(); ++spot) {
        const Node& node = *spot;
        std::shared_ptr<const ExecNode>& slot = made.image->nodes[pairing.place_of(node)];
        Result result = compare_work(slot->work, node.work);
        if (result == fits && image.by_priority && priority_of(slot->work) != priority_of(node.work))
            result = CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED;
        if (result != fits) return {nullptr, {result, &node, nullptr}};
        ExecNode changed = *slot;
        changed.work = node.work;
        changed.memory = node.memory;
        keep_cluster(slot->work, changed.work);
        if (const auto* child = std::get_if<ChildWork>(&node.work)) {
            NewImage inner = updated(*slot->child, *child->graph);
            if (inner.outcome.result != fits) return inner;
            changed.child = std::move(inner.image);
            std::get<ChildWork>(changed.work).graph.reset();
        }
        if (auto* next = std::get_if<ConditionalWork>(&changed.work)) {
            const UpdateOutcome bodies = update_bodies(std::get<ConditionalWork>(slot->work), *next);
            if (bodies.result != fits) return {nullptr, bodies};
        }
        slot = std::make_shared<ExecNode>(std::move(changed));
    }
    return made;
}

}  // namespace

CUgraphExecUpdateResult compare_work(const Work& now, const Work& next) {
    if (now.index() != next.index()) return CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
    return std::visit(
        [&next](const auto& kind) { return compare(kind, std::get<std::decay_t<decltype(kind)>>(next)); }, now);
}

UpdateOutcome update(Exec& exec, const Graph& graph) {
    NewImage made = updated(*exec.image, graph);
    if (made.outcome.result == fits) {
        made.image->user_objects = graph.user_objects;
        made.image->assigned = assigned_conditions(graph);
        exec.image = std::move(made.image);
        exec.memory_uid = graph.uid;
    }
    return made.outcome;
}

UpdateOutcome update_child(Exec& exec, const Node& node, const Graph& child) {
    ExecNode changed = *find_exec_node(exec, node);
    NewImage made = updated(*changed.child, child);
    if (made.outcome.result != fits) return made.outcome;
    changed.child = std::move(made.image);
    replace_exec_node(exec, node, std::move(changed));
    return made.outcome;
}

}  // namespace lowgraph
