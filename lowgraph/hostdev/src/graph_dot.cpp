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
        std::string operator()(const ChildWork&) { return "graph"; }
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

// The graphs inside a node: a child, a conditional node's bodies.
std::vector<const Graph*> inside(const Node& node) {
    if (const auto* const child = std::get_if<ChildWork>(&node.work)) return {child->graph.get()};
    const auto* const conditional = std::get_if<ConditionalWork>(&node.work);
    if (conditional == nullptr || conditional->bodies == nullptr) return {};
    std::vector<const Graph*> found;
    for (const auto& body : conditional->bodies->graphs) found.push_back(body.get());
    return found;
}

std::string name_of(const Node& node) {
    return "n" + std::to_string(node.graph->uid) + "_" + std::to_string(node.id);
}

void write(std::ostream& text, const Graph& graph) {
    for (const Node& node : graph.nodes)
        text << "  " << name_of(node) << " [label=\"" << node.id << ": " << label_of(node) << "\"];\n";
    for (const Node& node : graph.nodes) {
        for (const Node* after : node.after) text << "  " << name_of(node) << " -> " << name_of(*after) << ";\n";
        for (const Graph* inner : inside(node)) {
            text << "subgraph cluster_" << inner->uid << " {\n  label=\"of " << node.id << "\";\n";
            write(text, *inner);
            text << "}\n";
        }
    }
}

}  // namespace

std::string dot_text(const Graph& graph) {
    std::ostringstream text;
    text << "digraph graph_" << graph.uid << " {\n";
    write(text, graph);
    text << "}\n";
    return text.str();
}

}  // namespace lowgraph
