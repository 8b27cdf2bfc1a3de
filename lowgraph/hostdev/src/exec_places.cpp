// The way from a node of the source graph to its twin in an executable, through child graphs and bodies.
#include "conditional.h"
#include "exec.h"

namespace lowgraph {
namespace {

// The image inside a node, of its child graph or of the body that the path names next.
template <typename AnyNode>
auto& image_in(AnyNode& node, const std::vector<uint32_t>& path, size_t& level) {
    auto* const conditional = std::get_if<ConditionalWork>(&node.work);
    return conditional != nullptr ? conditional->images[path[level++]] : node.child;
}

void set_node(ExecImage& image, const std::vector<uint32_t>& path, size_t level, ExecNode&& changed) {
    std::shared_ptr<const ExecNode>& slot = image.nodes[path[level++]];
    if (level == path.size()) {
        slot = std::make_shared<ExecNode>(std::move(changed));
        return;
    }
    ExecNode outer = *slot;
    std::shared_ptr<const ExecImage>& place = image_in(outer, path, level);
    auto inner = std::make_shared<ExecImage>(*place);
    set_node(*inner, path, level, std::move(changed));
    place = std::move(inner);
    slot = std::make_shared<ExecNode>(std::move(outer));
}

}  // namespace

void add_places(const Graph& graph, const std::vector<uint32_t>& above, Exec& exec) {
    uint32_t place = 0;
    for (const Node* node : topological_order(graph)) {
        std::vector<uint32_t> path = above;
        path.push_back(place++);
        if (const auto* child = std::get_if<ChildWork>(&node->work)) add_places(*child->graph, path, exec);
        if (const auto* conditional = std::get_if<ConditionalWork>(&node->work))
            for (uint32_t i = 0; i < conditional->bodies->graphs.size(); ++i) {
                std::vector<uint32_t> inner = path;
                inner.push_back(i);
                add_places(*conditional->bodies->graphs[i], inner, exec);
            }
        exec.places[node] = {graph.uid, node->id, std::move(path)};
    }
}

const ExecNode* find_exec_node(const Exec& exec, const Node& node) {
    const auto place = exec.places.find(&node);
    if (place == exec.places.end() || place->second.graph_uid != node.graph->uid) return nullptr;
    if (place->second.node_id != node.id) return nullptr;
    const std::vector<uint32_t>& path = place->second.path;
    const ExecNode* found = exec.image->nodes[path[0]].get();
    for (size_t level = 1; level < path.size();) {
        const ExecImage& inner = *image_in(*found, path, level);
        found = inner.nodes[path[level++]].get();
    }
    return found;
}

void replace_exec_node(Exec& exec, const Node& node, ExecNode&& changed) {
    // Only a launch in flight can hold the image too, and only one that big_lock let us queue.
    if (exec.image.use_count() > 1) exec.image = std::make_shared<ExecImage>(*exec.image);
    set_node(*exec.image, exec.places.at(&node).path, 0, std::move(changed));
}

}  // namespace lowgraph
