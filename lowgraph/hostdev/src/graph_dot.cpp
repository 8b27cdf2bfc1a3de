// A graph as DOT text: what cuGraphDebugDotPrint writes.
#include <sstream>

#include "conditional.h"
#include "graph.h"
#include "module.h"

namespace lowgraph {
namespace {

std::string label_of(const Node& node) {
    struct Namer {
        std::string operator()(const EmptyWork&) { return "empty"; }
        std::string operator()(const KernelWork& work) { return work.function->name; }
        std::string operator()(const CopyWork& work) { return "memcpy " + std::to_string(work.width) + " B"; }
        std::string operator()(const FillWork& work) { return "memset " + std::to_string(work.width); }
        std::string operator()(const HostWork&) { return "host function"; }
        std::string operator()(const RecordWork&) { return "event record"; }
        std::string operator()(const WaitWork&) { return "event wait"; }
        std::string operator()(const AllocWork& work) { return "alloc " + std::to_string(work.bytes) + " B"; }
        std::string operator()(const FreeWork&) { return "free"; }
        std::string operator()(const ChildWork& work) {
            return "graph of " + std::to_string(work.graph->nodes.size()) + " nodes";
        }
        std::string operator()(const ConditionalWork& work) {
            const char* const names[] = {"if", "while", "switch"};
            return std::string("conditional ") + names[work.type];
        }
        std::string operator()(const WordsWork& work) {
            return std::to_string(work.operations.size()) + " memory operations";
        }
        std::string operator()(const ImageWork&) { return "executable"; }
    };
    return std::visit(Namer{}, node.work);
}

std::string text_of(const Dim3& size) {
    return "(" + std::to_string(size.x) + ", " + std::to_string(size.y) + ", " + std::to_string(size.z) + ")";
}

// How it is launched, on a second line of the label; of a kernel only.
std::string launch_of(const Node& node) {
    const auto* const work = std::get_if<KernelWork>(&node.work);
    if (work == nullptr) return "";
    return "\\ngrid " + text_of(work->grid) + ", block " + text_of(work->block) + ", shared " +
           std::to_string(work->shared_bytes) + " B";
}

// The graphs that a node holds.
std::vector<const Graph*> inner_graphs(const Node& node) {
    if (const auto* const child = std::get_if<ChildWork>(&node.work)) return {child->graph.get()};
    std::vector<const Graph*> found;
    if (const auto* const conditional = std::get_if<ConditionalWork>(&node.work))
        for (const auto& body : conditional->bodies->graphs) found.push_back(body.get());
    return found;
}

// Nodes, edges, and each graph inside as a cluster that is labelled by its node. `within` begins the
// names of all nodes, since those of two graphs have the same numbers.
void draw(std::ostream& text, const Graph& graph, const std::string& within, bool with_launches) {
    for (const Node& node : graph.nodes)
        text << "  " << within << node.id << " [label=\"" << node.id << ": " << label_of(node)
             << (with_launches ? launch_of(node) : "") << "\"];\n";
    for (const Node& node : graph.nodes)
        for (const Node* after : node.after) text << "  " << within << node.id << " -> " << within << after->id << ";\n";
    for (const Node& node : graph.nodes) {
        const std::vector<const Graph*> inner = inner_graphs(node);
        for (size_t number = 0; number < inner.size(); ++number) {
            const std::string name = within + std::to_string(node.id) + "_" + std::to_string(number) + "_";
            text << "  subgraph cluster_" << name << " {\n  label=\"in " << node.id << ": " << label_of(node);
            if (inner.size() > 1) text << ", body " << number;
            text << "\";\n";
            draw(text, *inner[number], name, with_launches);
            text << "  }\n";
        }
    }
}

}  // namespace

std::string dot_text(const Graph& graph, unsigned flags) {
    constexpr unsigned with_launches =
        CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE | CU_GRAPH_DEBUG_DOT_FLAGS_KERNEL_NODE_PARAMS;
    std::ostringstream text;
    text << "digraph graph_" << graph.uid << " {\n";
    draw(text, graph, "n", (flags & with_launches) != 0);
    text << "}\n";
    return text.str();
}

}  // namespace lowgraph
