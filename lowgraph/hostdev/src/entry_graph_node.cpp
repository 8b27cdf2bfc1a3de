// Entry points of single graph nodes: added, and their parameters read and set. A node is made and read
// without a current context, but for kernels, whose making the recorded driver does not survive so.
#include "attributes.h"
#include "conditional.h"
#include "node_entry.h"

using namespace lowgraph;

namespace {

template <typename Kind, typename Params>
CUresult get(CUgraphNode handle, Params* params) {
    const Kind* const work = work_of<Kind>(handle);
    if (work == nullptr || params == nullptr) return CUDA_ERROR_INVALID_VALUE;
    write_params(*work, params);
    return CUDA_SUCCESS;
}

template <typename Kind>
CUresult get_event(CUgraphNode handle, CUevent* event) {
    const Kind* const work = work_of<Kind>(handle);
    if (work == nullptr || event == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *event = handle_of(work->event);
    return CUDA_SUCCESS;
}

}  // namespace

// ---- Kernels ----
LOWGRAPH_API CUresult cuGraphAddKernelNode_v2(CUgraphNode* phGraphNode, CUgraph hGraph,
                                              const CUgraphNode* dependencies, size_t count,
                                              const CUDA_KERNEL_NODE_PARAMS* params) {
    LOWGRAPH_ENTRY(context);
    return add({phGraphNode, hGraph, dependencies, count}, reader(params));
}

LOWGRAPH_API CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode hNode, CUDA_KERNEL_NODE_PARAMS* params) {
    LOWGRAPH_ENTRY(handle);
    if (work_of<KernelWork>(hNode) == nullptr || params == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return write_params(*find_node(hNode), params);
}

LOWGRAPH_API CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode hNode, const CUDA_KERNEL_NODE_PARAMS* params) {
    LOWGRAPH_ENTRY(context);
    return set<KernelWork>(hNode, reader(params));
}

LOWGRAPH_API CUresult cuGraphKernelNodeGetAttribute(CUgraphNode hNode, CUkernelNodeAttrID attr,
                                                    CUkernelNodeAttrValue* value) {
    LOWGRAPH_ENTRY(handle);
    const KernelWork* const work = work_of<KernelWork>(hNode);
    if (work == nullptr || value == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return read_attribute(*work, attr, value);
}

LOWGRAPH_API CUresult cuGraphKernelNodeSetAttribute(CUgraphNode hNode, CUkernelNodeAttrID attr,
                                                    const CUkernelNodeAttrValue* value) {
    LOWGRAPH_ENTRY(handle);
    KernelWork* const work = work_of<KernelWork>(hNode);
    if (work == nullptr || value == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return write_attribute(*work, attr, *value);
}

LOWGRAPH_API CUresult cuGraphKernelNodeCopyAttributes(CUgraphNode dst, CUgraphNode src) {
    LOWGRAPH_ENTRY(handle);
    const KernelWork* const from = work_of<KernelWork>(src);
    KernelWork* const to = work_of<KernelWork>(dst);
    return from != nullptr && to != nullptr ? copy_attributes(*from, *to) : CUDA_ERROR_INVALID_VALUE;
}

// ---- Copies, memsets, host functions ----
LOWGRAPH_API CUresult cuGraphAddMemcpyNode(CUgraphNode* phGraphNode, CUgraph hGraph,
                                           const CUgraphNode* dependencies, size_t count,
                                           const CUDA_MEMCPY3D* params, CUcontext ctx) {
    LOWGRAPH_ENTRY(handle);
    return add({phGraphNode, hGraph, dependencies, count}, reader(params, ctx));
}

LOWGRAPH_API CUresult cuGraphMemcpyNodeGetParams(CUgraphNode hNode, CUDA_MEMCPY3D* params) {
    LOWGRAPH_ENTRY(handle);
    return get<CopyWork>(hNode, params);
}

LOWGRAPH_API CUresult cuGraphMemcpyNodeSetParams(CUgraphNode hNode, const CUDA_MEMCPY3D* params) {
    LOWGRAPH_ENTRY(context);
    return set<CopyWork>(hNode, reader(params));
}

LOWGRAPH_API CUresult cuGraphAddMemsetNode(CUgraphNode* phGraphNode, CUgraph hGraph,
                                           const CUgraphNode* dependencies, size_t count,
                                           const CUDA_MEMSET_NODE_PARAMS* params, CUcontext ctx) {
    LOWGRAPH_ENTRY(handle);
    return add({phGraphNode, hGraph, dependencies, count}, reader(params, ctx));
}

LOWGRAPH_API CUresult cuGraphMemsetNodeGetParams(CUgraphNode hNode, CUDA_MEMSET_NODE_PARAMS* params) {
    LOWGRAPH_ENTRY(handle);
    return get<FillWork>(hNode, params);
}

LOWGRAPH_API CUresult cuGraphMemsetNodeSetParams(CUgraphNode hNode, const CUDA_MEMSET_NODE_PARAMS* params) {
    LOWGRAPH_ENTRY(context);
    return set<FillWork>(hNode, reader(params));
}

LOWGRAPH_API CUresult cuGraphAddHostNode(CUgraphNode* phGraphNode, CUgraph hGraph,
                                         const CUgraphNode* dependencies, size_t count,
                                         const CUDA_HOST_NODE_PARAMS* params) {
    LOWGRAPH_ENTRY(handle);
    return add({phGraphNode, hGraph, dependencies, count}, reader(params));
}

LOWGRAPH_API CUresult cuGraphHostNodeGetParams(CUgraphNode hNode, CUDA_HOST_NODE_PARAMS* params) {
    LOWGRAPH_ENTRY(handle);
    const HostWork* const work = work_of<HostWork>(hNode);
    if (work == nullptr || params == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *params = {work->fn, work->user_data};
    return CUDA_SUCCESS;
}

LOWGRAPH_API CUresult cuGraphHostNodeSetParams(CUgraphNode hNode, const CUDA_HOST_NODE_PARAMS* params) {
    LOWGRAPH_ENTRY(context);
    return set<HostWork>(hNode, reader(params));
}

// ---- Empty nodes, child graphs, events ----
LOWGRAPH_API CUresult cuGraphAddEmptyNode(CUgraphNode* phGraphNode, CUgraph hGraph,
                                          const CUgraphNode* dependencies, size_t count) {
    LOWGRAPH_ENTRY(handle);
    return add({phGraphNode, hGraph, dependencies, count}, [](Work*) { return CUDA_SUCCESS; });
}

LOWGRAPH_API CUresult cuGraphAddChildGraphNode(CUgraphNode* phGraphNode, CUgraph hGraph,
                                               const CUgraphNode* dependencies, size_t count,
                                               CUgraph childGraph) {
    LOWGRAPH_ENTRY(handle);
    const Graph* const child = find_graph(childGraph);
    if (child != nullptr && !may_be_copied(*child)) return CUDA_ERROR_NOT_SUPPORTED;  // before all else
    if (childGraph == hGraph) return CUDA_ERROR_INVALID_VALUE;  // the real driver ends the process
    return add({phGraphNode, hGraph, dependencies, count},
               [childGraph](Work* work) { return read_child(childGraph, work); });
}

LOWGRAPH_API CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode hNode, CUgraph* phGraph) {
    LOWGRAPH_ENTRY(handle);
    const ChildWork* const work = work_of<ChildWork>(hNode);
    if (work == nullptr || phGraph == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *phGraph = handle_of(work->graph.get());
    return CUDA_SUCCESS;
}

LOWGRAPH_API CUresult cuGraphAddEventRecordNode(CUgraphNode* phGraphNode, CUgraph hGraph,
                                                const CUgraphNode* dependencies, size_t count, CUevent event) {
    LOWGRAPH_ENTRY(context);
    return add({phGraphNode, hGraph, dependencies, count},
               [event](Work* work) { return read_record(event, work); });
}

LOWGRAPH_API CUresult cuGraphEventRecordNodeGetEvent(CUgraphNode hNode, CUevent* event_out) {
    LOWGRAPH_ENTRY(handle);
    return get_event<RecordWork>(hNode, event_out);
}

LOWGRAPH_API CUresult cuGraphEventRecordNodeSetEvent(CUgraphNode hNode, CUevent event) {
    LOWGRAPH_ENTRY(context);
    return set<RecordWork>(hNode, [event](Work* work) { return read_record(event, work); });
}

LOWGRAPH_API CUresult cuGraphAddEventWaitNode(CUgraphNode* phGraphNode, CUgraph hGraph,
                                              const CUgraphNode* dependencies, size_t count, CUevent event) {
    LOWGRAPH_ENTRY(context);
    return add({phGraphNode, hGraph, dependencies, count},
               [event](Work* work) { return read_wait(event, work); });
}

LOWGRAPH_API CUresult cuGraphEventWaitNodeGetEvent(CUgraphNode hNode, CUevent* event_out) {
    LOWGRAPH_ENTRY(handle);
    return get_event<WaitWork>(hNode, event_out);
}

LOWGRAPH_API CUresult cuGraphEventWaitNodeSetEvent(CUgraphNode hNode, CUevent event) {
    LOWGRAPH_ENTRY(context);
    return set<WaitWork>(hNode, [event](Work* work) { return read_wait(event, work); });
}

// ---- Memory of graphs ----
LOWGRAPH_API CUresult cuGraphAddMemAllocNode(CUgraphNode* phGraphNode, CUgraph hGraph,
                                             const CUgraphNode* dependencies, size_t count,
                                             CUDA_MEM_ALLOC_NODE_PARAMS* params) {
    LOWGRAPH_ENTRY(handle);
    return add({phGraphNode, hGraph, dependencies, count}, reader(params));
}

LOWGRAPH_API CUresult cuGraphMemAllocNodeGetParams(CUgraphNode hNode, CUDA_MEM_ALLOC_NODE_PARAMS* params_out) {
    LOWGRAPH_ENTRY(handle);
    return get<AllocWork>(hNode, params_out);
}

LOWGRAPH_API CUresult cuGraphAddMemFreeNode(CUgraphNode* phGraphNode, CUgraph hGraph,
                                            const CUgraphNode* dependencies, size_t count, CUdeviceptr dptr) {
    LOWGRAPH_ENTRY(context);
    return add({phGraphNode, hGraph, dependencies, count}, [&](Work* work) {
        const CUresult code = read_free(dptr, work);
        if (code != CUDA_SUCCESS) find_graph(hGraph)->holds_memory = true;  // as in check_free_node
        return code;
    });
}

LOWGRAPH_API CUresult cuGraphMemFreeNodeGetParams(CUgraphNode hNode, CUdeviceptr* dptr_out) {
    LOWGRAPH_ENTRY(handle);
    const FreeWork* const work = work_of<FreeWork>(hNode);
    if (work == nullptr || dptr_out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *dptr_out = work->address;
    return CUDA_SUCCESS;
}
