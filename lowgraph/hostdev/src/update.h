// cuGraphExecUpdate: whether an executable can take over the parameters of another graph, and why not.
#pragma once
#include "exec.h"

namespace lowgraph {

struct UpdateOutcome {
    CUgraphExecUpdateResult result = CU_GRAPH_EXEC_UPDATE_SUCCESS;
    const Node* node = nullptr;       // of the new graph; null where the count of nodes differs
    const Node* from_node = nullptr;  // the dependency that has no twin
};

// On success the next launches run the new parameters; on any other result the executable is as it was.
UpdateOutcome update(Exec& exec, const Graph& graph);

// Whether `next` may take the place of `now` in an executable (set-params calls and updates alike).
CUgraphExecUpdateResult compare_work(const Work& now, const Work& next);

// The same for the child graph of one node.
UpdateOutcome update_child(Exec& exec, const Node& node, const Graph& child);

}  // namespace lowgraph
