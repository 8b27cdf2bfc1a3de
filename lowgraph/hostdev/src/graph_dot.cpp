// A graph as DOT text: what cuGraphDebugDotPrint writes.
#include <sstream>

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

}  // namespace

std::string dot_text(const Graph& graph) {
    std::ostringstream text;
    text << "digraph graph_" << graph.uid << " {\n";
    for (const Node& node : graph.nodes)
        text << "  n" << node.id << " [label=\"" << node.id << ": " << label_of(node) << "\"];\n";
    for (const Node& node : graph.nodes)
        for (const Node* after : node.after) text << "  n" << node.id << " -> n" << after->id << ";\n";
    text << "}\n";
    return text.str();
}

}  // namespace lowgraph
